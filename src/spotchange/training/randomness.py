"""The state of the random numbers that training draws: saved and put back, so that a resumed run draws the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int, process: int) -> None:
    """Start every generator; each process gets its own dropout."""
    mixed = seed * 1000 + process
    random.seed(mixed)
    np.random.seed(mixed % 2**32)
    torch.manual_seed(mixed)


def random_state(device: torch.device) -> dict[str, Any]:
    """State of torch's generators on the CPU and on `device`."""
    return {
        "cpu": torch.get_rng_state(),
        "device": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def restore_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Go on from `random_state`."""
    torch.set_rng_state(state["cpu"])
    if state["device"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(state["device"], device)
