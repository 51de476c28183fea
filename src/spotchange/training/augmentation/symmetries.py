"""Pairs mirrored and turned, for images that have no up (seen from above): words of place go along.

Mirroring exchanges left and right, turning upside down top and bottom, in the caption too. Quarter turns would need
other sentences ("the top left corner" would become "the right top corner"), so only captions that name no place in
the image get them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from spotchange.pairs import PairBatch

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_ACROSS = (("left", "right"),)
_UPRIGHT = (("top", "bottom"), ("upper", "lower"), ("above", "below"))
_BOUND = ("vertical", "vertically", "horizontal", "horizontally")  # mirrors keep them true, quarter turns do not


@dataclass(frozen=True, kw_only=True)
class PlaceWords:
    """What a vocabulary's words become in a mirrored image; all tensors (vocabulary,)."""

    across: Tensor  # int64: left and right exchanged
    upright: Tensor  # int64: top and bottom exchanged
    bound: Tensor  # bool: a caption with this word cannot be turned by a quarter
    stuck: Tensor  # bool: nor mirrored, because there is no one word to put in its place

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> PlaceWords:
        """The tables of a model's words or tokens."""
        size = tokenizer.get_vocab_size(with_added_tokens=True)
        bound, stuck = torch.zeros(2, size, dtype=torch.bool)
        tables = []
        for couples in (_ACROSS, _UPRIGHT):
            table = torch.arange(size)
            for couple in couples:
                ids = [_pieces(tokenizer, word) for word in couple]
                if all(len(pieces) == 1 for pieces in ids):
                    (first,), (second,) = ids
                    table[first], table[second] = second, first
                else:
                    stuck[[piece for pieces in ids for piece in pieces]] = True
                bound[[piece for pieces in ids for piece in pieces]] = True
            tables.append(table)
        for word in _BOUND:
            bound[_pieces(tokenizer, word)] = True
        return cls(across=tables[0], upright=tables[1], bound=bound, stuck=stuck)

    def to(self, device: torch.device) -> PlaceWords:
        """The same tables on another device."""
        moved = {name: getattr(self, name).to(device) for name in ("across", "upright", "bound", "stuck")}
        return PlaceWords(**moved)


def _pieces(tokenizer: Tokenizer, word: str) -> list[int]:
    """Ids that a word is written with; none if the vocabulary lacks it."""
    ids = tokenizer.encode(word, add_special_tokens=False).ids
    unknown = tokenizer.token_to_id("[UNK]")
    return [number for number in ids if number != unknown]


def mirror_and_turn(batch: PairBatch, words: PlaceWords, *, grid: tuple[int, int]) -> PairBatch:
    """Each pair in one of the eight ways to lay it down, or of those that its caption and its shape allow."""
    pairs, device = len(batch), batch.before.device
    across, upright, turned = torch.rand(3, pairs, device=device) < 0.5
    free = ~words.stuck[batch.caption_ids].any(dim=1)
    across, upright = across & free, upright & free
    as_cells = batch.before.is_floating_point()  # features of a frozen network: where things stand changes, no more
    square = grid[0] == grid[1] and (as_cells or batch.before.shape[-1] == batch.before.shape[-2])
    turned = turned & ~words.bound[batch.caption_ids].any(dim=1) & square

    def moved(planes: Tensor) -> Tensor:
        """(pairs, ..., rows, columns)."""
        shape = (pairs,) + (1,) * (planes.ndim - 1)
        planes = torch.where(across.view(shape), planes.flip(-1), planes)
        planes = torch.where(upright.view(shape), planes.flip(-2), planes)
        return torch.where(turned.view(shape), planes.transpose(-1, -2), planes) if square else planes

    def moved_cells(cells: Tensor) -> Tensor:
        """(pairs, ..., cells, values)."""
        return moved(cells.transpose(-1, -2).unflatten(-1, grid)).flatten(-2).transpose(-1, -2)

    moved_image = moved_cells if as_cells else moved
    ids = torch.where(across[:, None], words.across[batch.caption_ids], batch.caption_ids)
    ids = torch.where(upright[:, None], words.upright[ids], ids)
    changed = {"before": moved_image(batch.before), "after": moved_image(batch.after), "caption_ids": ids}
    if batch.change_mask is not None:
        changed["change_mask"] = moved(batch.change_mask.unflatten(-1, grid)).flatten(-2)
    if batch.patch_attributes is not None:
        changed["patch_attributes"] = moved_cells(batch.patch_attributes)
    return replace(batch, **changed, caption_place=None)  # a mirrored caption is none of the set's
