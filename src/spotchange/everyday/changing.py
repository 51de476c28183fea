"""What happens to a thing between two images: it comes, goes, moves, or becomes another or otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from spotchange.everyday.imaging.chance import Draws
from spotchange.everyday.kinds import KIND_IDS
from spotchange.everyday.language.colours import COLOURS, PAINTS
from spotchange.everyday.library import Library
from spotchange.everyday.scenes import HALF

KNOWN_PAINTS = [COLOURS.index(name) for name in PAINTS]

Layers = dict[str, Tensor]  # what is pasted into one image of each scene, by its names in `Things`


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Where a thing would move, and what would take its place; (scenes,) each."""

    x: Tensor
    y: Tensor
    object: Tensor
    view: Tensor
    height: Tensor


def change_thing(
    library: Library, draws: Draws, kind: Tensor, thing: int, before: Layers, after: Layers, alternative: Alternative
) -> None:
    """Put a change, of its kind in each scene, into one thing of `after` (`before` too if it is new), in place."""

    def is_kind(name: str) -> Tensor:
        return kind == KIND_IDS[name]

    def put(name: str, when: Tensor, value: Tensor | float) -> None:
        after[name][:, thing] = torch.where(when, torch.as_tensor(value, device=kind.device), after[name][:, thing])

    before["on"][:, thing] &= ~is_kind("add")
    after["on"][:, thing] &= ~is_kind("drop")
    put("x", is_kind("move"), alternative.x)
    put("y", is_kind("move"), alternative.y)
    replaced = is_kind("replace")
    new_width = alternative.height * library.aspects[alternative.view]
    fit = (0.62 / new_width).clamp(max=1.0)
    stands = before["y"][:, thing] + before["height"][:, thing] / 2
    put("object", replaced, alternative.object)
    put("view", replaced, alternative.view)
    put("height", replaced, alternative.height * fit)
    put("width", replaced, new_width * fit)
    put("y", replaced, stands - alternative.height * fit / 2)
    put("painted", replaced, 0.0)
    put("colour", replaced, library.colours[alternative.object])
    _recolour(draws, is_kind("color"), thing, before, after)
    _turn(library, draws, is_kind("turn"), thing, after)
    grown = torch.where(draws.happens(0.5), draws.one(1.45, 2.0), draws.one(0.45, 0.66))
    grown = torch.where(before["height"][:, thing] * grown > 0.62, 0.55, grown)
    stands_lower = before["height"][:, thing] * (grown - 1) / 2
    put("height", is_kind("resize"), before["height"][:, thing] * grown)
    put("width", is_kind("resize"), before["width"][:, thing] * grown)
    put("y", is_kind("resize"), before["y"][:, thing] - stands_lower)
    _split(draws, is_kind("split"), thing, after)


def _recolour(draws: Draws, when: Tensor, thing: int, before: Layers, after: Layers) -> None:
    """A paint that is clearly another colour than before."""
    paints = torch.tensor([PAINTS[COLOURS[each]] for each in KNOWN_PAINTS], device=when.device) / 255
    numbers = torch.tensor(KNOWN_PAINTS, device=when.device)
    old = before["colour"][:, thing]
    # Neighbours that people mix up are no change anyone would name.
    close = {"orange": ("brown", "yellow", "red"), "red": ("pink", "orange", "brown"), "pink": ("red", "purple")}
    close |= {"gray": ("white", "black"), "brown": ("orange", "red"), "purple": ("pink", "blue"), "white": ("gray",)}
    allowed = torch.ones(len(COLOURS), len(numbers), device=when.device)
    for row, name in enumerate(COLOURS):
        for column, number in enumerate(KNOWN_PAINTS):
            if COLOURS[number] == name or COLOURS[number] in close.get(name, ()):
                allowed[row, column] = 0
    scores = allowed[old] * draws.uniform(len(numbers), 0.01, 1.0)
    which = scores.argmax(1)
    after["paint"][:, thing] = torch.where(when[:, None], paints[which], after["paint"][:, thing])
    after["painted"][:, thing] = torch.where(when, 0.85, after["painted"][:, thing])
    after["colour"][:, thing] = torch.where(when, numbers[which], after["colour"][:, thing])


def _turn(library: Library, draws: Draws, when: Tensor, thing: int, after: Layers) -> None:
    """Seen from another side, where the library has one, or fallen over."""
    old = after["object"][:, thing]
    views = library.view_count[old]
    step = 1 + (draws.one() * (views - 1).clamp(min=1)).long()
    another = library.first_view[old] + (after["view"][:, thing] - library.first_view[old] + step) % views
    rolls = draws.happens(0.55) | (views < 3)
    angle = torch.where(draws.happens(0.5), math.pi / 2, math.pi) * torch.where(draws.happens(0.5), 1.0, -1.0)
    angle = angle + draws.bell(1, 0.15)[:, 0]
    seen = when & ~rolls
    old_view = after["view"][:, thing]
    wider = library.aspects[another] / library.aspects[old_view]
    after["view"][:, thing] = torch.where(seen, another, old_view)
    after["width"][:, thing] = torch.where(seen, after["width"][:, thing] * wider, after["width"][:, thing])
    turned = after["angle"][:, thing] + torch.where(when & rolls, angle, 0.0)
    after["angle"][:, thing] = turned


def _split(draws: Draws, when: Tensor, thing: int, after: Layers) -> None:
    """Two pieces, drawn apart."""
    apart = draws.one(0.18, 0.5)
    lean = draws.bell(2, 0.25)
    for piece, layer, side, low, high in ((0, thing, -1.0, 0.0, 0.5), (1, HALF + thing, 1.0, 0.5, 1.0)):
        flip = torch.where(after["flipped"][:, layer], -1.0, 1.0)
        shift = side * apart * after["width"][:, thing] * flip
        after["x"][:, layer] = torch.where(when, after["x"][:, layer] + shift, after["x"][:, layer])
        leaning = after["angle"][:, layer] + lean[:, piece]
        after["angle"][:, layer] = torch.where(when, leaning, after["angle"][:, layer])
        after["cut_low"][:, layer] = torch.where(when, low, after["cut_low"][:, layer])
        after["cut_high"][:, layer] = torch.where(when, high, after["cut_high"][:, layer])
    after["on"][:, HALF + thing] = when & after["on"][:, thing]
