"""Draws scenes: things by noun, sizes to scale, places with room between them, one change."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from spotchange.everyday.imaging.chance import Draws
from spotchange.everyday.imaging.looks import draw_looks
from spotchange.everyday.kinds import KIND_IDS, KINDS, SHARES, WHOLE_KINDS
from spotchange.everyday.language.colours import COLOURS, PAINTS
from spotchange.everyday.library import Library
from spotchange.everyday.scenes import HALF, LAYERS, OTHERS, TARGET, Scenes, Things, stack_images

_TRIES = 6  # places that are tried for each thing; the one with most room wins
_FLATTEN = 0.55  # exponent on real sizes: a mug beside a car would be a speck
_KNOWN_PAINTS = [COLOURS.index(name) for name in PAINTS]


def draw_scenes(library: Library, numbers: Tensor, *, seed: int, shares: Mapping[str, float] = SHARES) -> Scenes:
    """Scenes by their numbers, the same on every device and in any batch."""
    draws = Draws(seed, numbers.to(library.device))
    kind = _drawn_by(torch.tensor([shares.get(name, 0.0) for name in KINDS], device=library.device), draws.one())
    whole = kind >= KIND_IDS[WHOLE_KINDS[0]]
    calm = (kind == 0) | whole
    things = _draw_things(library, draws, kind, calm)
    return Scenes(
        numbers=numbers.to(library.device),
        seed=seed,
        kind=kind,
        things=things,
        looks=draw_looks(draws, kind),
        background=(draws.one() * len(library.backgrounds)).long().clamp(max=len(library.backgrounds) - 1),
        window=_draw_window(draws),
        mirrored_background=draws.happens(0.5),
        light=_draw_light(draws),
        contact=draws.one(0.0, 0.6),
    )


def _drawn_by(weights: Tensor, chance: Tensor) -> Tensor:
    edges = weights.cumsum(0) / weights.sum()
    return torch.searchsorted(edges, chance, right=True).clamp(max=len(weights) - 1)


def _draw_window(draws: Draws) -> Tensor:
    """Which part of the background is shown, and how much it is stretched."""
    size = draws.uniform(2, 0.62, 1.0)
    corner = draws.uniform(2) * (1 - size)
    return torch.cat([corner, size], dim=1)


def _draw_light(draws: Draws) -> Tensor:
    """Half of the scenes have cast shadows; longer ones fall away from the camera or towards it."""
    dark = torch.where(draws.happens(0.55), draws.one(0.15, 0.65), 0.0)
    long = draws.one(0.2, 0.7) * torch.where(draws.happens(0.6), 1.0, -1.0)
    return torch.stack([draws.one(-1.2, 1.2), long, dark], dim=1)


def _draw_things(library: Library, draws: Draws, kind: Tensor, calm: Tensor) -> Things:
    scenes = len(kind)
    chosen = torch.searchsorted(library.chances, draws.uniform(OTHERS + 2)).clamp(max=len(library.nouns) - 1)
    chosen = _other_noun_last(library, chosen, draws)
    turn = draws.uniform(OTHERS + 2)
    view = library.first_view[chosen] + (turn * library.view_count[chosen]).long()
    width, height = _draw_sizes(library, draws, chosen, view)
    # The last column is what the target is replaced by: it stands where the target stands.
    x, y, moved_x, moved_y = _place(draws, width, height)
    wanted = torch.where(draws.happens(0.15), draws.one(0.0, 3.0), draws.one(3.0, 8.99)).long()
    wanted = torch.where(calm, torch.where(draws.happens(0.15), 0, wanted), wanted.clamp(min=1))
    on = torch.arange(OTHERS + 1, device=kind.device)[None] < wanted[:, None]
    angle = torch.where(draws.uniform(OTHERS + 1) < 0.7, 0.0, draws.bell(OTHERS + 1, 0.12))
    fallen = draws.uniform(OTHERS + 1) < 0.06
    angle = torch.where(fallen, draws.uniform(OTHERS + 1, -math.pi, math.pi), angle)
    paint, painted, colour = _draw_paint(library, draws, chosen[:, : OTHERS + 1])
    before = {
        "on": on,
        "view": view[:, :-1],
        "object": chosen[:, :-1],
        "x": x,
        "y": y,
        "width": width[:, :-1],
        "height": height[:, :-1],
        "angle": angle,
        "flipped": draws.uniform(OTHERS + 1) < 0.5,
        "cut_low": torch.zeros_like(x),
        "cut_high": torch.ones_like(x),
        "paint": paint,
        "painted": painted,
        "colour": colour,
        "gain": torch.exp(draws.bell(OTHERS + 1, 0.14)),
    }
    before = {name: _with_half(values) for name, values in before.items()}
    before["on"][:, HALF] = False
    after = {name: values.clone() for name, values in before.items()}
    # What stays is not seen at quite the same place by a hand-held camera.
    sway = torch.where(draws.happens(0.3), draws.one(0.0, 0.006), 0.0)
    after["x"] += draws.bell(LAYERS, 1.0) * sway[:, None]
    after["y"] += draws.bell(LAYERS, 1.0) * sway[:, None]
    _change(library, draws, kind, before, after, (moved_x, moved_y), (chosen[:, -1], view[:, -1]), height[:, -1])
    both = {name: stack_images(before[name], after[name]) for name in before}
    assert both["on"].shape == (scenes, 2, LAYERS)
    return Things(**both)


def _other_noun_last(library: Library, chosen: Tensor, draws: Draws) -> Tensor:
    """What replaces the target must be called otherwise: drawn again where it is not."""
    for _ in range(3):
        again = torch.searchsorted(library.chances, draws.one()).clamp(max=len(library.nouns) - 1)
        same = library.nouns[chosen[:, -1]] == library.nouns[chosen[:, TARGET]]
        chosen = torch.cat([chosen[:, :-1], torch.where(same, again, chosen[:, -1])[:, None]], dim=1)
    return chosen


def _with_half(values: Tensor) -> Tensor:
    """One more layer, for the second piece of the target."""
    return torch.cat([values, values[:, :1]], dim=1)


def _draw_sizes(library: Library, draws: Draws, chosen: Tensor, view: Tensor) -> tuple[Tensor, Tensor]:
    """Widths and heights in parts of the image: the target's drawn, all others to its scale, softened."""
    real = library.heights[chosen].clamp(0.02, 4.0) ** _FLATTEN
    target = torch.exp(draws.one(math.log(0.075), math.log(0.5)))
    height = target[:, None] * real / real[:, :1]
    height = height * torch.exp(draws.bell(chosen.shape[1], 0.12))
    height[:, TARGET] = target
    height[:, -1] = target * torch.exp(draws.one(-0.25, 0.25))
    height = height.clamp(0.06, 0.62)
    aspect = library.aspects[view] * torch.exp(draws.bell(chosen.shape[1], 0.06))
    width = height * aspect
    fit = (0.62 / width).clamp(max=1.0) * torch.where(width * height < 0.0042, 1.35, 1.0)
    return width * fit, height * fit


def _place(draws: Draws, width: Tensor, height: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Middles of the target and the others, and where the target would move; overlaps are avoided, not excluded."""
    horizon = draws.one(0.12, 0.5)

    def tries(w: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        across, down = draws.uniform(_TRIES), draws.uniform(_TRIES)
        edge = 0.04  # a little of a thing may lie outside
        x = w[:, None] / 2 - edge * w[:, None] + across * (1 - w[:, None] * (1 - 2 * edge))
        low = torch.maximum(horizon[:, None], h[:, None] * 0.92)
        bottom = low + down * (1.02 - low).clamp(min=0.02)
        return x, bottom - h[:, None] / 2

    w0, h0 = width[:, TARGET], height[:, TARGET]
    x, y = tries(w0, h0)
    xs, ys, taken_w, taken_h, weight = [x[:, 0]], [y[:, 0]], [w0], [h0], [3.0]
    far_x, far_y = tries(w0, h0)
    apart_x = (far_x - x[:, :1]).abs() / (w0[:, None] + 0.07)
    apart_y = (far_y - y[:, :1]).abs() / (h0[:, None] + 0.07)
    away = torch.maximum(apart_x, apart_y)
    # Any try that is far enough will do: nearer ones are as welcome as far ones.
    best = ((away >= 1.0).float() * 10 + away.clamp(max=1.0) - torch.arange(_TRIES, device=x.device) * 1e-3).argmax(1)
    moved = far_x.gather(1, best[:, None])[:, 0], far_y.gather(1, best[:, None])[:, 0]
    boxes_x, boxes_y = [x[:, 0], moved[0]], [y[:, 0], moved[1]]
    taken_w, taken_h, weight = [w0, w0], [h0, h0], [3.0, 2.0]
    for other in range(1, OTHERS + 1):
        w, h = width[:, other], height[:, other]
        x, y = tries(w, h)
        crowd = torch.zeros_like(x)
        for bx, by, bw, bh, heavy in zip(boxes_x, boxes_y, taken_w, taken_h, weight, strict=True):
            over_x = (w[:, None] + bw[:, None]) / 2 - (x - bx[:, None]).abs()
            over_y = (h[:, None] + bh[:, None]) / 2 - (y - by[:, None]).abs()
            shared = over_x.clamp(min=0) * over_y.clamp(min=0)
            crowd = crowd + heavy * shared / torch.minimum(w * h, bw * bh)[:, None]
        best = crowd.argmin(1, keepdim=True)
        xs.append(x.gather(1, best)[:, 0])
        ys.append(y.gather(1, best)[:, 0])
        boxes_x.append(xs[-1])
        boxes_y.append(ys[-1])
        taken_w.append(w)
        taken_h.append(h)
        weight.append(1.0)
    return torch.stack(xs, 1), torch.stack(ys, 1), *moved


def _draw_paint(library: Library, draws: Draws, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Some things come in another colour than in the library, so that paint itself tells nothing."""
    paints = torch.tensor([PAINTS[COLOURS[each]] for each in _KNOWN_PAINTS], device=chosen.device) / 255
    which = (draws.uniform(chosen.shape[1]) * len(paints)).long().clamp(max=len(paints) - 1)
    painted = torch.where(draws.uniform(chosen.shape[1]) < 0.15, 0.85, 0.0)
    numbers = torch.tensor(_KNOWN_PAINTS, device=chosen.device)
    colour = torch.where(painted > 0, numbers[which], library.colours[chosen])
    return paints[which], painted, colour


def _change(
    library: Library,
    draws: Draws,
    kind: Tensor,
    before: dict[str, Tensor],
    after: dict[str, Tensor],
    moved: tuple[Tensor, Tensor],
    replacement: tuple[Tensor, Tensor],
    replacement_height: Tensor,
) -> None:
    """Put the change into the target of `after`, in place."""

    def is_kind(name: str) -> Tensor:
        return kind == KIND_IDS[name]

    def put(name: str, when: Tensor, value: Tensor | float | bool, layer: int = TARGET) -> None:
        after[name][:, layer] = torch.where(when, torch.as_tensor(value, device=kind.device), after[name][:, layer])

    before["on"][:, TARGET] &= ~is_kind("add")
    after["on"][:, TARGET] &= ~is_kind("drop")
    put("x", is_kind("move"), moved[0])
    put("y", is_kind("move"), moved[1])
    replaced = is_kind("replace")
    new_width = replacement_height * library.aspects[replacement[1]]
    fit = (0.62 / new_width).clamp(max=1.0)
    stands = before["y"][:, TARGET] + before["height"][:, TARGET] / 2
    put("object", replaced, replacement[0])
    put("view", replaced, replacement[1])
    put("height", replaced, replacement_height * fit)
    put("width", replaced, new_width * fit)
    put("y", replaced, stands - replacement_height * fit / 2)
    put("painted", replaced, 0.0)
    put("colour", replaced, library.colours[replacement[0]])
    _recolour(draws, is_kind("color"), before, after)
    _turn(library, draws, is_kind("turn"), after)
    grown = torch.where(draws.happens(0.5), draws.one(1.45, 2.0), draws.one(0.45, 0.66))
    grown = torch.where(before["height"][:, TARGET] * grown > 0.62, 0.55, grown)
    stands_lower = before["height"][:, TARGET] * (grown - 1) / 2
    put("height", is_kind("resize"), before["height"][:, TARGET] * grown)
    put("width", is_kind("resize"), before["width"][:, TARGET] * grown)
    put("y", is_kind("resize"), before["y"][:, TARGET] - stands_lower)
    _split(draws, is_kind("split"), after)


def _recolour(draws: Draws, when: Tensor, before: dict[str, Tensor], after: dict[str, Tensor]) -> None:
    """A paint that is clearly another colour than before."""
    paints = torch.tensor([PAINTS[COLOURS[each]] for each in _KNOWN_PAINTS], device=when.device) / 255
    numbers = torch.tensor(_KNOWN_PAINTS, device=when.device)
    old = before["colour"][:, TARGET]
    # Neighbours that people mix up are no change anyone would name.
    close = {"orange": ("brown", "yellow", "red"), "red": ("pink", "orange", "brown"), "pink": ("red", "purple")}
    close |= {"gray": ("white", "black"), "brown": ("orange", "red"), "purple": ("pink", "blue"), "white": ("gray",)}
    allowed = torch.ones(len(COLOURS), len(numbers), device=when.device)
    for row, name in enumerate(COLOURS):
        for column, number in enumerate(_KNOWN_PAINTS):
            if COLOURS[number] == name or COLOURS[number] in close.get(name, ()):
                allowed[row, column] = 0
    scores = allowed[old] * draws.uniform(len(numbers), 0.01, 1.0)
    which = scores.argmax(1)
    after["paint"][:, TARGET] = torch.where(when[:, None], paints[which], after["paint"][:, TARGET])
    after["painted"][:, TARGET] = torch.where(when, 0.85, after["painted"][:, TARGET])
    after["colour"][:, TARGET] = torch.where(when, numbers[which], after["colour"][:, TARGET])


def _turn(library: Library, draws: Draws, when: Tensor, after: dict[str, Tensor]) -> None:
    """Seen from another side, where the library has one, or fallen over."""
    target = after["object"][:, TARGET]
    views = library.view_count[target]
    step = 1 + (draws.one() * (views - 1).clamp(min=1)).long()
    another = library.first_view[target] + (after["view"][:, TARGET] - library.first_view[target] + step) % views
    rolls = draws.happens(0.55) | (views < 3)
    angle = torch.where(draws.happens(0.5), math.pi / 2, math.pi) * torch.where(draws.happens(0.5), 1.0, -1.0)
    angle = angle + draws.bell(1, 0.15)[:, 0]
    seen = when & ~rolls
    old_view = after["view"][:, TARGET]
    wider = library.aspects[another] / library.aspects[old_view]
    after["view"][:, TARGET] = torch.where(seen, another, old_view)
    after["width"][:, TARGET] = torch.where(seen, after["width"][:, TARGET] * wider, after["width"][:, TARGET])
    turned = after["angle"][:, TARGET] + torch.where(when & rolls, angle, 0.0)
    after["angle"][:, TARGET] = turned


def _split(draws: Draws, when: Tensor, after: dict[str, Tensor]) -> None:
    """Two pieces, drawn apart."""
    apart = draws.one(0.18, 0.5)
    lean = draws.bell(2, 0.25)
    for layer, side, low, high in ((TARGET, -1.0, 0.0, 0.5), (HALF, 1.0, 0.5, 1.0)):
        flip = torch.where(after["flipped"][:, layer], -1.0, 1.0)
        shift = side * apart * after["width"][:, TARGET] * flip
        after["x"][:, layer] = torch.where(when, after["x"][:, layer] + shift, after["x"][:, layer])
        leaning = after["angle"][:, layer] + lean[:, min(layer, 1)]
        after["angle"][:, layer] = torch.where(when, leaning, after["angle"][:, layer])
        after["cut_low"][:, layer] = torch.where(when, low, after["cut_low"][:, layer])
        after["cut_high"][:, layer] = torch.where(when, high, after["cut_high"][:, layer])
    after["on"][:, HALF] = when & after["on"][:, TARGET]
