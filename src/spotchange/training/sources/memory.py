"""How much training data may lie on the GPU."""

from __future__ import annotations

import torch

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
