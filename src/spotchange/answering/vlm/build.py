"""From `vlm:FOLDER` or `openai:BASE_URL#MODEL` to a ready answerer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from spotchange.answering.pair import ImagePair
from spotchange.answering.vlm.answerer import VlmAnswerer
from spotchange.answering.vlm.asking import Asked, Example
from spotchange.answering.vlm.cache import ReplyCache, default_cache
from spotchange.answering.vlm.prompt import Prompt, load_prompt
from spotchange.answering.vlm.settings import VlmSettings, read_options
from spotchange.data import read_rows
from spotchange.errors import InputError, MissingExtraError
from spotchange.language import says_no_change


def build_vlm(name: str, options: Mapping[str, str], *, device: str) -> VlmAnswerer:
    """The model, its prompt, its examples and the cache of its replies."""
    settings = read_options(options)
    prompt = load_prompt(settings.prompt_name)
    examples = _examples(settings.few_shot, settings.shots, prompt) if settings.few_shot else []
    cache = None if settings.no_cache else ReplyCache(settings.cache or default_cache())
    kind, _, where = name.partition(":")
    model = _served(where, settings) if kind == "openai" else _local(where, settings, device)
    return VlmAnswerer(model, prompt, settings, cache=cache, examples=examples)


def _served(where: str, settings: VlmSettings) -> Asked:
    base_url, separator, model = where.partition("#")
    if not separator or not model:
        raise InputError(f"openai:{where} names no model", hint="openai:http://localhost:8000/v1#MODEL")
    try:
        from spotchange.answering.vlm.server import ServedModel
    except ImportError:
        raise MissingExtraError("asking a server", extra="vlm") from None
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

    return LocalModel(where, settings, device=choose_device(device))


def _examples(data: Path, shots: int, prompt: Prompt) -> list[Example]:
    """The first pairs of a train split, changed ones and others in turn, with replies in the prompt's form."""
    rows = list(read_rows(data, "train"))
    groups: dict[bool, list[Example]] = {True: [], False: []}
    for row in rows:
        caption = row.captions[0]
        changed = row.change_type != "none" if row.change_type is not None else not says_no_change(caption)
        values: dict[str, object] = {"changed": changed, "caption": caption}
        if "differences" in prompt.schema_["properties"]:
            values["differences"] = [caption] if changed else []
        if len(groups[changed]) < shots:
            pair = ImagePair.of(row.before_path, row.after_path)
            groups[changed].append(Example(pair=pair, reply=json.dumps(values)))
    turns = [example for both in zip(groups[True], groups[False], strict=False) for example in both]
    rest = [example for group in groups.values() for example in group if example not in turns]
    return [*turns, *rest][:shots]
