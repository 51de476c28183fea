"""The one batch that training reads, from the generated stream and from disk alike."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

_SHARE_OF_GPU = 2 / 3  # of the memory that training data may take; larger sets stay on disk and are read as needed
_processes_on_gpu = 1


def share_gpu(processes: int) -> None:
    """Count on a part of a GPU's memory only: so many processes like this one train on it side by side."""
    global _processes_on_gpu
    _processes_on_gpu = processes


def fits_on(device: torch.device, size: int) -> bool:
    """Whether so many bytes of training data leave enough of a GPU's memory to train in."""
    if device.type != "cuda":
        return False
    free, total = torch.cuda.mem_get_info(device)
    return size < _SHARE_OF_GPU * min(free, total / _processes_on_gpu)


@dataclass(frozen=True, kw_only=True)
class PairBatch:
    """N pairs on the training device.

    On data with distractors, the change row and the distractor row of a scene stand next to each
    other (rows 2k and 2k + 1). Dense truth is there for generated scenes only.
    """

    before: Tensor  # uint8 (N, 3, H, W)
    after: Tensor  # uint8 (N, 3, H, W)
    caption_ids: Tensor  # int64 (N, words), begin and end tokens included, padded
    caption_mask: Tensor  # bool (N, words), True on words
    change_type: Tensor  # int64 (N,): index into the data set's change types, 0 = none, -1 = unknown
    scene_id: Tensor  # int64 (N,): pairs of one scene share it
    patch_attributes: Tensor | None = None  # int8 (N, 2, patches, 4), -1 where no object
    change_mask: Tensor | None = None  # bool (N, 2, patches)
    answer: Tensor | None = None  # int64 (N, 6): target's color, shape, material, size, new color, new material; -1

    def __len__(self) -> int:
        return len(self.before)

    def __getitem__(self, rows: Any) -> PairBatch:
        """Select rows by slice, mask or index tensor."""
        chosen = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: value[rows] for name, value in chosen.items() if value is not None})

    def to(self, device: Any) -> PairBatch:
        """The same batch on another device."""
        chosen = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(
            self, **{name: value.to(device, non_blocking=True) for name, value in chosen.items() if value is not None}
        )
