"""From a model's name to whoever answers for it: one table, one line per kind of answerer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from spotchange.answering.captioner import Captioner
from spotchange.answering.interface import Answerer
from spotchange.errors import InputError, ModelError
from spotchange.models.weights.bundled import BUNDLED, bundled_folder

if TYPE_CHECKING:
    from spotchange.answering.model import ModelAnswerer

Factory = Callable[[str, str, int | None], Answerer]


def load(model: str | os.PathLike[str] = BUNDLED, *, device: str = "auto", threads: int | None = None) -> Captioner:
    """Load a model folder, the model that ships with the package, or any other answerer by its name.

    Args:
        model: a folder written by `spotchange train` or `spotchange models import`, "bundled", or "pixels".
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads to use; None leaves the runtime's choice.
    """
    return Captioner(build_answerer(model, device=device, threads=threads))


def build_answerer(
    model: str | os.PathLike[str] = BUNDLED, *, device: str = "auto", threads: int | None = None
) -> Answerer:
    """Whoever answers for `model`: the part before a colon, or the whole name, is looked up in `ANSWERERS`."""
    name = os.fspath(model)
    factory = ANSWERERS.get(name.partition(":")[0], _folder_answerer)
    return factory(name, device, threads)


def model_answerer(model: str, *, device: str = "auto", threads: int | None = None) -> ModelAnswerer:
    """A model folder's network with its calibration."""
    import torch

    from spotchange.answering.calibration import Calibration, Familiarity
    from spotchange.answering.model import ModelAnswerer
    from spotchange.answering.torch_runtime import TorchRuntime
    from spotchange.models.weights.folder import load_model

    if threads is not None:
        torch.set_num_threads(threads)
    folder = model_folder(model)
    runtime = TorchRuntime(load_model(folder, device=choose_device(device)))
    return ModelAnswerer(runtime, calibration=Calibration.read(folder), familiarity=Familiarity.read(folder))


def _folder_answerer(name: str, device: str, threads: int | None) -> Answerer:
    return model_answerer(name, device=device, threads=threads)


def _pixel_answerer(name: str, device: str, threads: int | None) -> Answerer:
    from spotchange.answering.pixels import PixelAnswerer

    return PixelAnswerer()


# Everything that answers. A name that is not here is a model folder.
ANSWERERS: dict[str, Factory] = {
    BUNDLED: _folder_answerer,
    "pixels": _pixel_answerer,
}


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
