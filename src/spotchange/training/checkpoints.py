"""Checkpoints that are always whole: a folder is written under another name, flushed to disk, then renamed.

`OUT/last` is a model folder plus `training_state.pt`; `OUT/best` a model folder. While a new one takes its place the
old one stays as `.last.previous`; if the machine dies between the two renames, `recover` puts it back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from spotchange.errors import InputError, ModelError

STATE_FILE = "training_state.pt"
LAST, BEST = "last", "best"


def replace_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a new folder and put it in the place of `target`, which stays usable until then."""
    recover(target)
    fresh, previous = _beside(target, "new"), _beside(target, "previous")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        fill(fresh)
        _flush(fresh)
        if target.exists():
            target.rename(previous)
        fresh.rename(target)
        _flush_entry(target.parent)
        shutil.rmtree(previous, ignore_errors=True)
    except OSError as error:
        raise InputError(f"cannot write checkpoint {target}: {error.strerror or error}") from error


def recover(target: Path) -> None:
    """Undo a replacement that was cut off: the old folder goes back to its place, half-written ones go away."""
    previous = _beside(target, "previous")
    if previous.exists():
        if target.exists():
            shutil.rmtree(previous)
        else:
            previous.rename(target)
    shutil.rmtree(_beside(target, "new"), ignore_errors=True)


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Write what resuming needs beside the model's files."""
    try:
        torch.save(state, folder / STATE_FILE)
    except RuntimeError as error:  # torch's own writer says so of a full disk
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"cannot write {folder / STATE_FILE}: {reason}", hint="is the disk full?") from error


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


def _beside(target: Path, what: str) -> Path:
    return target.with_name(f".{target.name}.{what}")


def _flush(folder: Path) -> None:
    """Everything in `folder` onto the disk, so that a rename never outruns its contents."""
    for path in folder.rglob("*"):
        _flush_entry(path)
    _flush_entry(folder)


def _flush_entry(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
