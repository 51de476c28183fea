"""What of a GPU's memory training data may take."""

from __future__ import annotations

import pytest
import torch

from spotchange.training.sources import memory


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """One of 90 bytes, 60 of them free."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (60, 90))
    monkeypatch.setattr(memory, "_processes_on_gpu", 1)
    return torch.device("cuda")


def test_a_part_of_what_is_free(gpu: torch.device) -> None:
    assert memory.fits_on(gpu, 39)
    assert not memory.fits_on(gpu, 41)
    assert not memory.fits_on(torch.device("cpu"), 1)


def test_processes_side_by_side_have_a_part_each(gpu: torch.device) -> None:
    memory.share_gpu(3)  # 30 bytes each, whatever is free while none of them has begun
    assert memory.fits_on(gpu, 19)
    assert not memory.fits_on(gpu, 21)
