"""From a model's name to whoever answers for it: one table, one line per kind of answerer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from spotchange.answering.captioner import Captioner
from spotchange.answering.interface import Answerer
from spotchange.errors import InputError, ModelError
from spotchange.models.weights.bundled import BUNDLED, EVERYDAY, bundled_folder, everyday_folder, knows_everyday

if TYPE_CHECKING:
    from spotchange.answering.model import ModelAnswerer


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Where and how an answerer runs; who starts a program chooses these, never a request."""

    device: str = "auto"
    threads: int | None = None
    runtime: str = "auto"
    model_options: Mapping[str, str] = field(default_factory=dict)  # the answerer's own settings, as texts


Factory = Callable[[str, LoadOptions], Answerer]


def load(
    model: str | os.PathLike[str] = BUNDLED,
    *,
    device: str = "auto",
    threads: int | None = None,
    runtime: str = "auto",
    model_options: Mapping[str, str] | None = None,
) -> Captioner:
    """Load a model folder, the model that ships with the package, or any other answerer by its name.

    Args:
        model: a folder written by `spotchange train` or `spotchange models import`, "bundled", "pixels",
            "vlm:FOLDER_OR_HUB_NAME" or "openai:BASE_URL#MODEL".
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads to use; None leaves the runtime's choice.
        runtime: auto, onnx or torch; auto takes torch where there is a GPU or no ONNX export.
        model_options: settings of a vision-language model, such as {"prompt": "clevr-change"}.
    """
    options = LoadOptions(device=device, threads=threads, runtime=runtime, model_options=model_options or {})
    return Captioner(build_answerer(model, options))


def build_answerer(model: str | os.PathLike[str] = BUNDLED, options: LoadOptions | None = None) -> Answerer:
    """Whoever answers for `model`: the part before a colon, or the whole name, is looked up in `ANSWERERS`."""
    name, options = os.fspath(model), options or LoadOptions()
    factory = ANSWERERS.get(name.partition(":")[0], _folder_answerer)
    return factory(name, options)


def model_answerer(
    model: str, *, device: str = "auto", threads: int | None = None, runtime: str = "auto"
) -> ModelAnswerer:
    """A model folder's network with its calibration."""
    from spotchange.answering.runtimes.choose import start_runtime

    folder = model_folder(model)
    network = start_runtime(folder, runtime=runtime, device=device, threads=threads)

    # While the network is being loaded.
    from spotchange.answering.calibration import read_calibration
    from spotchange.answering.model import ModelAnswerer

    calibration, familiarity = read_calibration(folder)
    return ModelAnswerer(network(), calibration=calibration, familiarity=familiarity)


def _folder_answerer(name: str, options: LoadOptions) -> Answerer:
    if options.model_options:
        raise InputError("--model-option is for vision-language models", hint="vlm:... or openai:...")
    # The everyday model runs on torch only; without it, what the scene model does not know is answered from pixels.
    if name == BUNDLED and everyday_folder() is not None and find_spec("torch") is not None:
        return _gated_answerer(options)
    if knows_everyday(model_folder(name)):
        return _everyday(model_folder(name), options)
    return model_answerer(name, device=options.device, threads=options.threads, runtime=options.runtime)


def _gated_answerer(options: LoadOptions) -> Answerer:
    """All that ships: each pair goes to the model that knows it, which is loaded when the first such pair comes."""
    from spotchange.answering.gate import GatedAnswerer

    return GatedAnswerer(
        lambda: model_answerer(BUNDLED, device=options.device, threads=options.threads, runtime=options.runtime),
        lambda: _everyday_answerer(EVERYDAY, options),
        name=BUNDLED,
    )


def _everyday_answerer(name: str, options: LoadOptions) -> Answerer:
    folder = everyday_folder()
    if folder is None:
        raise ModelError("this build carries no everyday model", hint="give a folder trained on that world")
    return _everyday(folder, options)


def _everyday(folder: Path, options: LoadOptions) -> Answerer:
    from spotchange.answering.everyday import EverydayAnswerer
    from spotchange.answering.runtimes.torch import choose_device

    return EverydayAnswerer.load(folder, device=choose_device(options.device))


def _pixel_answerer(name: str, options: LoadOptions) -> Answerer:
    from spotchange.answering.pixels import PixelAnswerer

    return PixelAnswerer()


def _vlm_answerer(name: str, options: LoadOptions) -> Answerer:
    from spotchange.answering.vlm.build import build_vlm

    return build_vlm(name, options.model_options, device=options.device)


# Everything that answers beside our own models. A name that is not here is a model folder, or the bundled one.
ANSWERERS: dict[str, Factory] = {
    EVERYDAY: _everyday_answerer,
    "pixels": _pixel_answerer,
    "vlm": _vlm_answerer,
    "openai": _vlm_answerer,
}


def model_folder(model: str | os.PathLike[str]) -> Path:
    """Where a model lies on disk."""
    if model == BUNDLED:
        return bundled_folder()
    folder = Path(model)
    if not folder.is_dir():
        raise ModelError(f"no model folder at {folder}", hint="give a folder, or 'bundled'")
    return folder
