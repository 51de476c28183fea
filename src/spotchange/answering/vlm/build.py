"""From `vlm:FOLDER` or `openai:BASE_URL#MODEL` to a model that can be asked, and to a ready answerer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spotchange.answering.calibration import Calibration
from spotchange.answering.interface import ASKED
from spotchange.answering.pair import ImagePair
from spotchange.answering.vlm.answerer import Shot, VlmAnswerer
from spotchange.answering.vlm.asking import Asked
from spotchange.answering.vlm.cache import Asker, ReplyCache, default_cache
from spotchange.answering.vlm.settings import OF_LOCAL_MODELS, OF_SERVERS, VlmSettings, read_options
from spotchange.config.prompts import Prompt, load_prompt
from spotchange.data import Row, read_rows
from spotchange.errors import DataError, InputError, MissingExtraError, ModelError
from spotchange.files import load_json, read_input
from spotchange.language import says_no_change

log = logging.getLogger(__name__)


def build_vlm(name: str, options: Mapping[str, Any], *, device: str) -> VlmAnswerer:
    """The model, its prompt, its examples and the cache of its replies."""
    settings = read_options(options)
    prompt = load_prompt(settings.prompt_name)
    _check_asks(prompt, settings)
    asker = build_asker(name, settings, device=device)
    if not asker.model.sees:
        raise ModelError(f"{asker.model.name} is a language model, which sees no images", hint="it may be a --judge")
    if asker.model.prompt_file is not None and "prompt" not in options:
        prompt = load_prompt(str(asker.model.prompt_file))
        _check_asks(prompt, settings)
    shots = _shots(settings.few_shot, settings.shots, prompt) if settings.few_shot else []
    answerer = VlmAnswerer(asker, prompt, settings, shots=shots)
    if settings.calibration is None:
        return answerer
    fitted = _read_calibration(settings.calibration, answerer.asked_as)
    return VlmAnswerer(answerer.asker, prompt, settings, shots=shots, calibration=fitted)


def build_asker(name: str, settings: VlmSettings, *, device: str) -> Asker:
    """The model that a name stands for, with the cache of its replies."""
    kind, _, where = name.partition(":")
    if kind not in ASKED:
        raise InputError(f"{name} is no model that can be asked", hint="vlm:FOLDER or openai:BASE_URL#MODEL")
    idle = sorted(settings.model_fields_set & (OF_LOCAL_MODELS if kind == "openai" else OF_SERVERS))
    if idle:  # no error: with --compare the same options are for two models
        log.warning("%s: models make no use of %s", kind, ", ".join(idle))
    cache = None if settings.no_cache else ReplyCache(settings.cache or default_cache())
    model = _served(where, settings) if kind == "openai" else _local(where, settings, device)
    return Asker(model, cache, prices=settings.prices)


def _served(where: str, settings: VlmSettings) -> Asked:
    base_url, separator, model = where.partition("#")
    try:
        from spotchange.answering.vlm.address import shown_address
        from spotchange.answering.vlm.server import ServedModel
    except ImportError:
        raise MissingExtraError("asking a server", extra="vlm") from None
    if not separator or not model:
        hint = "openai:http://localhost:8000/v1#MODEL"
        raise InputError(f"openai:{shown_address(where)} names no model", hint=hint)
    return ServedModel(base_url, model, settings)


def _local(where: str, settings: VlmSettings, device: str) -> Asked:
    if not where:
        raise InputError("vlm: names no model", hint="vlm:FOLDER or vlm:ORGANISATION/NAME")
    try:
        import torch  # noqa: F401 - only to say which extra is missing
    except ImportError:
        raise MissingExtraError("a local vision-language model", extra="vlm") from None
    from spotchange.answering.runtimes.torch import choose_device
    from spotchange.answering.vlm.local import LocalModel
    from spotchange.models.hub.repository import hub_name

    on_hub = hub_name(where)
    if on_hub is not None and on_hub[1] is not None:
        if settings.revision is not None:
            raise InputError(f"vlm:{where} names two revisions", hint=f"vlm:{on_hub[0]}")
        where, settings = on_hub[0], settings.model_copy(update={"revision": on_hub[1]})
    return LocalModel(where, settings, device=choose_device(device))


def _check_asks(prompt: Prompt, settings: VlmSettings) -> None:
    """Refuse what would be wanted in vain."""
    if settings.differences == "many" and not prompt.lists_differences:
        raise InputError(f"prompt {prompt.signature} asks for no list of differences", hint="prompt=sentences does")
    if settings.hints and not prompt.hints:
        raise InputError(f"prompt {prompt.signature} has no place for hints", hint="prompt=sentence has")
    if (settings.score or settings.calibration) and not prompt.score_question:
        raise InputError(f"prompt {prompt.signature} has no score_question", hint="prompt=sentence has")


def _read_calibration(path: Path, asked_as: str) -> Calibration:
    """Numbers fitted for another model or prompt would be read as this one's; they are refused."""
    try:
        fitted_for = load_json(read_input(path)).get("fitted_for")
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(f"cannot read the calibration {path}: {error}") from error
    if fitted_for != asked_as:
        raise ModelError(
            f"{path} was fitted for {fitted_for or 'a model of ours'}, not for {asked_as}",
            hint="spotchange models calibrate MODEL DATA --out FILE, with the same --model-option",
        )
    return Calibration.read_file(path)


def _shots(data: Path, shots: int, prompt: Prompt) -> list[Shot]:
    """The first pairs of a train split, changed ones and others in turn, with replies in the prompt's form."""
    groups: dict[bool, list[Shot]] = {True: [], False: []}
    for row in read_rows(data, "train"):
        shot = _shot(row, prompt)
        if len(groups[shot.changed]) < shots:
            groups[shot.changed].append(shot)
        if all(len(group) == shots for group in groups.values()):
            break
    turns = [shot for both in zip(groups[True], groups[False], strict=False) for shot in both]
    found = [*turns, *(shot for group in groups.values() for shot in group[len(turns) // 2 :])][:shots]
    if not found:
        raise DataError(f"{data} has no pairs in its train split to show as examples")
    return found


def _shot(row: Row, prompt: Prompt) -> Shot:
    caption = row.captions[0]
    changed = row.change_type != "none" if row.change_type is not None else not says_no_change(caption)
    reply = prompt.reply(changed=changed, caption=caption, differences=row.differences or ())
    return Shot(pair=ImagePair.of(row.before_path, row.after_path), changed=changed, reply=reply)
