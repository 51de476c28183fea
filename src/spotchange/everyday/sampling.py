"""Draws scenes: things by noun, sizes to scale, places with room between them, one change or several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from spotchange.everyday.changing import KNOWN_PAINTS, Alternative, Layers, change_thing
from spotchange.everyday.imaging.chance import Draws
from spotchange.everyday.imaging.looks import draw_looks
from spotchange.everyday.kinds import KIND_IDS, KINDS, OBJECT_KINDS, SHARES, WHOLE_KINDS
from spotchange.everyday.language.colours import COLOURS, PAINTS
from spotchange.everyday.library import Library
from spotchange.everyday.scenes import HALF, OTHERS, TARGET, THINGS, Scenes, Things, stack_images

_MORE = 700_001  # what further changes draw from, apart from the seeds of all else
_TRIES = 6  # places that are tried for each thing; the one with most room wins
_FLATTEN = 0.55  # exponent on real sizes: a mug beside a car would be a speck


def draw_scenes(
    library: Library, numbers: Tensor, *, seed: int, shares: Mapping[str, float] = SHARES, changes: int = 1
) -> Scenes:
    """Scenes by their numbers, the same on every device and in any batch.

    Up to `changes` things of a scene change. What the others do is drawn from numbers of their own, so that a scene
    where one thing changes is the same whatever `changes` is.
    """
    draws, more = (Draws(seed + each, numbers.to(library.device)) for each in (0, _MORE))
    kinds = _draw_kinds(draws, more, shares, changes)
    kind = kinds[:, 0]
    things = _draw_things(library, draws, more, kinds)
    return Scenes(
        numbers=numbers.to(library.device),
        seed=seed,
        kinds=kinds,
        things=things,
        looks=draw_looks(draws, kind),
        background=(draws.one() * len(library.backgrounds)).long().clamp(max=len(library.backgrounds) - 1),
        window=_draw_window(draws),
        mirrored_background=draws.happens(0.5),
        light=_draw_light(draws),
        contact=draws.one(0.0, 0.6),
    )


def _draw_kinds(draws: Draws, more: Draws, shares: Mapping[str, float], changes: int) -> Tensor:
    """(scenes, changes): what happens to the first things; where the whole picture changes, or nothing, to none."""
    weights = torch.tensor([shares.get(name, 0.0) for name in KINDS], device=draws.keys.device)
    first = _drawn_by(weights, draws.one())
    has_place = (first >= 1) & (first <= len(OBJECT_KINDS))
    count = torch.where(has_place, 1 + (more.one() * changes).long(), 1)
    weights[KIND_IDS["none"]] = 0.0
    weights[KIND_IDS[WHOLE_KINDS[0]] :] = 0.0
    others = [torch.where(thing < count, _drawn_by(weights, more.one()), 0) for thing in range(1, changes)]
    return torch.stack([first, *others], dim=1)


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


def _draw_things(library: Library, draws: Draws, more: Draws, kinds: Tensor) -> Things:
    scenes, changes = kinds.shape
    calm = (kinds[:, 0] == 0) | (kinds[:, 0] >= KIND_IDS[WHOLE_KINDS[0]])
    chosen = torch.searchsorted(library.chances, draws.uniform(OTHERS + 2)).clamp(max=len(library.nouns) - 1)
    other = _called_otherwise(library, draws, chosen[:, -1], chosen[:, TARGET])
    chosen = torch.cat([chosen[:, :-1], other[:, None]], dim=1)
    turn = draws.uniform(OTHERS + 2)
    view = library.first_view[chosen] + (turn * library.view_count[chosen]).long()
    width, height = _draw_sizes(library, draws, chosen, view)
    # The last column is what the target is replaced by: it stands where the target stands.
    horizon = draws.one(0.12, 0.5)
    x, y, moved_x, moved_y = _place(draws, horizon, width, height)
    wanted = torch.where(draws.happens(0.15), draws.one(0.0, 3.0), draws.one(3.0, 8.99)).long()
    wanted = torch.where(calm, torch.where(draws.happens(0.15), 0, wanted), wanted.maximum((kinds > 0).sum(1)))
    on = torch.arange(THINGS, device=kinds.device)[None] < wanted[:, None]
    angle = torch.where(draws.uniform(THINGS) < 0.7, 0.0, draws.bell(THINGS, 0.12))
    fallen = draws.uniform(THINGS) < 0.06
    angle = torch.where(fallen, draws.uniform(THINGS, -math.pi, math.pi), angle)
    paint, painted, colour = _draw_paint(library, draws, chosen[:, :THINGS])
    before = {
        "on": on,
        "view": view[:, :-1],
        "object": chosen[:, :-1],
        "x": x,
        "y": y,
        "width": width[:, :-1],
        "height": height[:, :-1],
        "angle": angle,
        "flipped": draws.uniform(THINGS) < 0.5,
        "cut_low": torch.zeros_like(x),
        "cut_high": torch.ones_like(x),
        "paint": paint,
        "painted": painted,
        "colour": colour,
        "gain": torch.exp(draws.bell(THINGS, 0.14)),
    }
    # One more layer for the second piece of everything that may come apart.
    before = {name: torch.cat([values, values[:, :changes]], dim=1) for name, values in before.items()}
    before["on"][:, HALF:] = False
    after = {name: values.clone() for name, values in before.items()}
    # What stays is not seen at quite the same place by a hand-held camera.
    sway = torch.where(draws.happens(0.3), draws.one(0.0, 0.006), 0.0)
    for axis in ("x", "y"):
        swayed = draws.bell(HALF + 1, 1.0) * sway[:, None]
        after[axis] += torch.cat([swayed, swayed[:, 1:changes]], dim=1)
    alternative = Alternative(x=moved_x, y=moved_y, object=chosen[:, -1], view=view[:, -1], height=height[:, -1])
    change_thing(library, draws, kinds[:, TARGET], TARGET, before, after, alternative)
    for thing in range(1, changes):
        alternative = _draw_alternative(library, more, horizon, thing, before, after)
        change_thing(library, more, kinds[:, thing], thing, before, after, alternative)
    both = {name: stack_images(before[name], after[name]) for name in before}
    assert both["on"].shape == (scenes, 2, HALF + changes)
    return Things(**both)


def _called_otherwise(library: Library, draws: Draws, other: Tensor, old: Tensor) -> Tensor:
    """What replaces a thing must be called otherwise: drawn again where it is not."""
    for _ in range(3):
        again = torch.searchsorted(library.chances, draws.one()).clamp(max=len(library.nouns) - 1)
        other = torch.where(library.nouns[other] == library.nouns[old], again, other)
    return other


def _draw_alternative(
    library: Library, draws: Draws, horizon: Tensor, thing: int, before: Layers, after: Layers
) -> Alternative:
    """What one of the other things might do: the place that is far enough with most room, and another noun."""
    width, height = before["width"][:, thing], before["height"][:, thing]
    x, y = _tries(draws, horizon, width, height)
    worth = 10 * _far_enough(x, y, before["x"][:, [thing]], before["y"][:, [thing]], width, height)
    for layers in (before, after):
        for other in range(THINGS):
            if other != thing:
                box = [layers[name][:, other] for name in ("x", "y", "width", "height")]
                worth = worth - _overlap(x, y, width, height, box) * layers["on"][:, [other]]
    best = worth.argmax(1, keepdim=True)
    drawn = torch.searchsorted(library.chances, draws.one()).clamp(max=len(library.nouns) - 1)
    chosen = _called_otherwise(library, draws, drawn, before["object"][:, thing])
    return Alternative(
        x=x.gather(1, best)[:, 0],
        y=y.gather(1, best)[:, 0],
        object=chosen,
        view=library.first_view[chosen] + (draws.one() * library.view_count[chosen]).long(),
        height=(height * torch.exp(draws.one(-0.25, 0.25))).clamp(0.06, 0.62),
    )


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


def _tries(draws: Draws, horizon: Tensor, w: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """Middles of some places on the ground where a thing might stand: two of (scenes, tries)."""
    across, down = draws.uniform(_TRIES), draws.uniform(_TRIES)
    edge = 0.04  # a little of a thing may lie outside
    x = w[:, None] / 2 - edge * w[:, None] + across * (1 - w[:, None] * (1 - 2 * edge))
    low = torch.maximum(horizon[:, None], h[:, None] * 0.92)
    bottom = low + down * (1.02 - low).clamp(min=0.02)
    return x, bottom - h[:, None] / 2


def _far_enough(x: Tensor, y: Tensor, old_x: Tensor, old_y: Tensor, w: Tensor, h: Tensor) -> Tensor:
    """Of each try: 0 to 1 as it is nearer to the old place, 11 from where on it is clear of it."""
    apart_x = (x - old_x).abs() / (w[:, None] + 0.07)
    apart_y = (y - old_y).abs() / (h[:, None] + 0.07)
    away = torch.maximum(apart_x, apart_y)
    return (away >= 1.0).float() * 10 + away.clamp(max=1.0)


def _overlap(x: Tensor, y: Tensor, w: Tensor, h: Tensor, box: Sequence[Tensor], heavy: float = 1.0) -> Tensor:
    """Of each try: how much it shares with a box, as a part of the smaller of both, times how much that matters."""
    bx, by, bw, bh = box
    over_x = (w[:, None] + bw[:, None]) / 2 - (x - bx[:, None]).abs()
    over_y = (h[:, None] + bh[:, None]) / 2 - (y - by[:, None]).abs()
    shared = over_x.clamp(min=0) * over_y.clamp(min=0)
    return heavy * shared / torch.minimum(w * h, bw * bh)[:, None]


def _place(draws: Draws, horizon: Tensor, width: Tensor, height: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Middles of the target and the others, and where the target would move; overlaps are avoided, not excluded."""
    w0, h0 = width[:, TARGET], height[:, TARGET]
    x, y = _tries(draws, horizon, w0, h0)
    xs, ys = [x[:, 0]], [y[:, 0]]
    far_x, far_y = _tries(draws, horizon, w0, h0)
    # Any try that is far enough will do: nearer ones are as welcome as far ones.
    worth = _far_enough(far_x, far_y, x[:, :1], y[:, :1], w0, h0) - torch.arange(_TRIES, device=x.device) * 1e-3
    best = worth.argmax(1, keepdim=True)
    moved = far_x.gather(1, best)[:, 0], far_y.gather(1, best)[:, 0]
    boxes = [((x[:, 0], y[:, 0], w0, h0), 3.0), ((*moved, w0, h0), 2.0)]
    for other in range(1, THINGS):
        w, h = width[:, other], height[:, other]
        x, y = _tries(draws, horizon, w, h)
        crowd = torch.zeros_like(x)
        for box, heavy in boxes:
            crowd = crowd + _overlap(x, y, w, h, box, heavy)
        best = crowd.argmin(1, keepdim=True)
        xs.append(x.gather(1, best)[:, 0])
        ys.append(y.gather(1, best)[:, 0])
        boxes.append(((xs[-1], ys[-1], w, h), 1.0))
    return torch.stack(xs, 1), torch.stack(ys, 1), *moved


def _draw_paint(library: Library, draws: Draws, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Some things come in another colour than in the library, so that paint itself tells nothing."""
    paints = torch.tensor([PAINTS[COLOURS[each]] for each in KNOWN_PAINTS], device=chosen.device) / 255
    which = (draws.uniform(chosen.shape[1]) * len(paints)).long().clamp(max=len(paints) - 1)
    painted = torch.where(draws.uniform(chosen.shape[1]) < 0.15, 0.85, 0.0)
    numbers = torch.tensor(KNOWN_PAINTS, device=chosen.device)
    colour = torch.where(painted > 0, numbers[which], library.colours[chosen])
    return paints[which], painted, colour
