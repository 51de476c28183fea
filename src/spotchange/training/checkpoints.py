"""Checkpoints: `OUT/last` is a model folder plus `training_state.pt`, `OUT/best` a model folder; always whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from spotchange.errors import ModelError
from spotchange.files import new_folder, recover_folder

STATE_FILE = "training_state.pt"


def replace_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a new folder and put it in the place of `target`, which stays usable until then."""
    recover_folder(target)
    with new_folder(target, durable=True) as fresh:
        fill(fresh)


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Write what resuming needs beside the model's files."""
    torch.save(state, folder / STATE_FILE)


def load_state(folder: Path) -> dict[str, Any]:
    """Read what `save_state` wrote, on the CPU."""
    path = folder / STATE_FILE
    if not path.is_file():
        raise ModelError(f"{folder} holds no training state to resume from", hint="start without --resume")
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged archive fails in as many ways as it has layers
        raise ModelError(f"{path} is damaged: {' '.join(str(error).split())[:200]}") from error
    return state
