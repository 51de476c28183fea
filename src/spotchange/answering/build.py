"""From a model's name to a ready Captioner."""

from __future__ import annotations

import os
from pathlib import Path

from spotchange.answering.calibration import Calibration, Familiarity
from spotchange.answering.captioner import Captioner
from spotchange.errors import InputError, ModelError
from spotchange.models.weights.bundled import BUNDLED, bundled_folder


def load(model: str | os.PathLike[str] = BUNDLED, *, device: str = "auto", threads: int | None = None) -> Captioner:
    """Load a model folder, or the model that ships with the package.

    Args:
        model: a folder written by `spotchange train` or `spotchange models import`, or "bundled".
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads torch may use; None leaves its choice.
    """
    import torch

    from spotchange.models.weights.folder import load_model

    if threads is not None:
        torch.set_num_threads(threads)
    folder = model_folder(model)
    loaded = load_model(folder, device=choose_device(device))
    return Captioner(loaded, calibration=Calibration.read(folder), familiarity=Familiarity.read(folder))


def model_folder(model: str | os.PathLike[str]) -> Path:
    """Where a model lies on disk."""
    if model == BUNDLED:
        return bundled_folder()
    folder = Path(model)
    if not folder.is_dir():
        raise ModelError(f"no model folder at {folder}", hint="give a folder, or 'bundled'")
    return folder


def choose_device(device: str) -> str:
    """The device to compute on; a GPU when there is one and the caller leaves the choice."""
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        parsed = torch.device(device)
    except RuntimeError:
        raise InputError(f"unknown device {device!r}", hint="auto, cpu, cuda or cuda:0") from None
    if parsed.type == "cuda" and not torch.cuda.is_available():
        raise InputError("no CUDA device is available here", hint="use --device cpu")
    if parsed.type not in {"cpu", "cuda", "mps"}:
        raise InputError(f"device {device!r} is not supported", hint="auto, cpu, cuda or cuda:0")
    return device
