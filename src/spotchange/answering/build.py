"""From a model's name to whoever answers for it: one table, one line per kind of answerer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spotchange.answering.captioner import Captioner
from spotchange.answering.interface import ASKED, Answerer
from spotchange.errors import InputError, ModelError
from spotchange.files import fetched_folder
from spotchange.models.weights.bundled import BUNDLED, EVERYDAY, bundled_folder, everyday_folder, knows_everyday
from spotchange.storage import is_address

if TYPE_CHECKING:
    from spotchange.answering.model import ModelAnswerer


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Where and how an answerer runs; who starts a program chooses these, never a request."""

    device: str = "auto"
    threads: int | None = None
    runtime: str = "auto"
    model_options: Mapping[str, Any] = field(default_factory=dict)  # the answerer's own settings, as texts or values


Factory = Callable[[str, LoadOptions], Answerer]


def load(
    model: str | os.PathLike[str] = BUNDLED,
    *,
    device: str = "auto",
    threads: int | None = None,
    runtime: str = "auto",
    revision: str | None = None,
    model_options: Mapping[str, Any] | None = None,
) -> Captioner:
    """Load a model folder, the model that ships with the package, or any other answerer by its name.

    Args:
        model: a folder written by `spotchange train` or `spotchange models import`, a model of ours on the hub
            ("ORGANISATION/NAME", also "ORGANISATION/NAME@REVISION"), "bundled", "everyday", "pixels",
            "vlm:FOLDER_OR_HUB_NAME" or "openai:BASE_URL#MODEL".
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads to use; None leaves the runtime's choice.
        runtime: auto, onnx or torch; auto takes torch where there is a GPU or no ONNX export.
        revision: branch, tag or commit of a model on the hub.
        model_options: settings of a vision-language model, such as {"prompt": "clevr-change"}.
    """
    if revision is not None:
        from spotchange.models.hub.repository import hub_name

        if hub_name(os.fspath(model)) is None:
            raise InputError("revision is for models on the hub", hint="load('ORGANISATION/NAME', revision=...)")
        model = f"{os.fspath(model).partition('@')[0]}@{revision}"
    options = LoadOptions(device=device, threads=threads, runtime=runtime, model_options=model_options or {})
    return Captioner(build_answerer(model, options))


def build_answerer(model: str | os.PathLike[str] = BUNDLED, options: LoadOptions | None = None) -> Answerer:
    """Whoever answers for `model`: the part before a colon, or the whole name, is looked up in `ANSWERERS`."""
    name, options = os.fspath(model), options or LoadOptions()
    kind = name.partition(":")[0]
    if options.model_options and kind not in ASKED:
        first = next(iter(options.model_options))
        raise InputError(f"option {first!r} is for vision-language models", hint="vlm:... or openai:...")
    return ANSWERERS.get(kind, _folder_answerer)(name, options)


def model_answerer(
    model: str, *, device: str = "auto", threads: int | None = None, runtime: str = "auto"
) -> ModelAnswerer:
    """A model folder's network with its calibration."""
    from spotchange.answering.runtimes.choose import start_runtime

    folder = model_folder(model)
    network = start_runtime(folder, runtime=runtime, device=device, threads=threads)

    # While the network is being loaded.
    from spotchange.answering.calibration import read_calibration
    from spotchange.answering.gate import plausible_scene
    from spotchange.answering.model import ModelAnswerer

    calibration, familiarity = read_calibration(folder)
    plausible = plausible_scene if model == BUNDLED else None  # of other models' worlds only they know
    return ModelAnswerer(network(), calibration=calibration, familiarity=familiarity, plausible=plausible)


def _folder_answerer(name: str, options: LoadOptions) -> Answerer:
    if name == BUNDLED:
        return _gated_answerer(options)
    if knows_everyday(model_folder(name)):
        return _everyday(model_folder(name), options)
    return model_answerer(name, device=options.device, threads=options.threads, runtime=options.runtime)


def _gated_answerer(options: LoadOptions) -> Answerer:
    """All that ships: each pair goes to whoever knows it, loaded when the first such pair comes."""
    from spotchange.answering.gate import GatedAnswerer
    from spotchange.answering.runtimes.choose import chosen_runtime

    chosen_runtime(bundled_folder(), runtime=options.runtime, device=options.device)  # refuses what makes no sense, now
    return GatedAnswerer(
        lambda: model_answerer(BUNDLED, device=options.device, threads=options.threads, runtime=options.runtime),
        lambda: _everyday_answerer(EVERYDAY, options),
        name=BUNDLED,
    )


def _everyday_answerer(name: str, options: LoadOptions) -> Answerer:
    """Photos: the aligned comparison, the trained model that ships and the recognisers, together."""
    from spotchange.answering.photo_model import PhotoModel

    network = PhotoModel(everyday_folder(), runtime=options.runtime, device=options.device, threads=options.threads)

    # While the network is being loaded.
    from spotchange.answering.photos import PhotoAnswerer
    from spotchange.everyday.recognition.recognisers import Recognisers

    return PhotoAnswerer(Recognisers(network.name_windows, threads=options.threads), network)


def _everyday(folder: Path, options: LoadOptions) -> Answerer:
    from spotchange.answering.runtimes.choose import start_runtime

    network = start_runtime(folder, runtime=options.runtime, device=options.device, threads=options.threads)

    # While the network is being loaded.
    from spotchange.answering.calibration import Calibration
    from spotchange.answering.everyday import EverydayAnswerer

    return EverydayAnswerer(network(), calibration=Calibration.read(folder))


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
    **dict.fromkeys(ASKED, _vlm_answerer),
}


def model_folder(model: str | os.PathLike[str]) -> Path:
    """Where a model lies on disk: of a training run its best checkpoint; one on the hub is fetched first."""
    if model == BUNDLED:
        return bundled_folder()
    if is_address(os.fspath(model)):
        return fetched_folder(os.fspath(model))
    folder = Path(model)
    if folder.is_dir():
        from spotchange.models.weights.description import best_of_run  # not on the way to the bundled model

        return best_of_run(folder)
    from spotchange.models.hub.repository import hub_name, pull_model  # nor these

    on_hub = hub_name(os.fspath(model))
    if on_hub is None:
        raise ModelError(
            f"no model folder at {folder}", hint="give a folder, 'bundled', or ORGANISATION/NAME for one on the hub"
        )
    return pull_model(on_hub[0], revision=on_hub[1])


def own_folder(model: str, *, hint: str) -> Path:
    """Where a model of the user's lies, to write into it: one that ships or was fetched is not theirs to change."""
    folder = model_folder(model)
    if not folder.resolve().is_relative_to(Path(model).resolve()):
        raise InputError(f"{model} is no folder of yours to write into", hint=hint)
    return folder
