"""From a model's name to whoever answers for it: one table, one line per kind of answerer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from spotchange.answering.captioner import Captioner
from spotchange.answering.interface import Answerer
from spotchange.errors import ModelError
from spotchange.models.weights.bundled import BUNDLED, bundled_folder

if TYPE_CHECKING:
    from spotchange.answering.model import ModelAnswerer

Factory = Callable[[str, str, int | None], Answerer]


def load(
    model: str | os.PathLike[str] = BUNDLED,
    *,
    device: str = "auto",
    threads: int | None = None,
    runtime: str = "auto",
) -> Captioner:
    """Load a model folder, the model that ships with the package, or any other answerer by its name.

    Args:
        model: a folder written by `spotchange train` or `spotchange models import`, "bundled", or "pixels".
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads to use; None leaves the runtime's choice.
        runtime: auto, onnx or torch; auto takes torch where there is a GPU or no ONNX export.
    """
    return Captioner(build_answerer(model, device=device, threads=threads, runtime=runtime))


def build_answerer(
    model: str | os.PathLike[str] = BUNDLED,
    *,
    device: str = "auto",
    threads: int | None = None,
    runtime: str = "auto",
) -> Answerer:
    """Whoever answers for `model`: the part before a colon, or the whole name, is looked up in `ANSWERERS`."""
    name = os.fspath(model)
    factory = ANSWERERS.get(name.partition(":")[0])
    if factory is not None:
        return factory(name, device, threads)
    return model_answerer(name, device=device, threads=threads, runtime=runtime)


def model_answerer(
    model: str, *, device: str = "auto", threads: int | None = None, runtime: str = "auto"
) -> ModelAnswerer:
    """A model folder's network with its calibration."""
    from spotchange.answering.calibration import Calibration, Familiarity
    from spotchange.answering.choose_runtime import load_runtime
    from spotchange.answering.model import ModelAnswerer

    folder = model_folder(model)
    network = load_runtime(folder, runtime=runtime, device=device, threads=threads)
    return ModelAnswerer(network, calibration=Calibration.read(folder), familiarity=Familiarity.read(folder))


def _pixel_answerer(name: str, device: str, threads: int | None) -> Answerer:
    from spotchange.answering.pixels import PixelAnswerer

    return PixelAnswerer()


# Everything that answers beside our own models. A name that is not here is a model folder, or the bundled one.
ANSWERERS: dict[str, Factory] = {
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
