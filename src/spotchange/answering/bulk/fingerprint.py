"""What an answer was made from, as a short text: the two files, whoever answered, and how it was asked.

Answers of an earlier run are used again only under the same fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spotchange import __version__
from spotchange.answering.build import ANSWERERS, model_folder
from spotchange.answering.interface import CaptionOptions
from spotchange.data.metadata import METADATA
from spotchange.models.weights.bundled import BUNDLED
from spotchange.models.weights.description import resolved
from spotchange.storage import Fetchable

DIGITS = 32
_TOLD_BY_NO_ANSWER = (
    "README.md",
    "recipe.yaml",
    "reliability.svg",
    "training_heads.safetensors",
    "modeling_spotchange.py",
)


def asked_fingerprint(
    model: str | os.PathLike[str],
    model_options: Mapping[str, Any],
    options: CaptionOptions,
    *,
    signature: str | None = None,
) -> str:
    """Of everything but the images: this version, the model's files, the options.

    `signature` is what the answerer itself says its answers depend on: a prompt file may change under its name.
    """
    name = os.fspath(model)
    if model_options:
        from spotchange.answering.vlm.settings import ON_THE_WAY

        model_options = {key: each for key, each in model_options.items() if key not in ON_THE_WAY}
    is_folder = name == BUNDLED or name.partition(":")[0] not in ANSWERERS
    answers = _folder_digest(model_folder(name)) if is_folder else signature or _unloaded(name, model_options)
    text = json.dumps([__version__, answers, model_options, asdict(options)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _unloaded(name: str, model_options: Mapping[str, Any]) -> str:
    """Of an answerer that runs elsewhere: its name, and the content of what the name and the options point to."""
    places = [Path(resolved(str(each))) for each in (name.partition(":")[2], *model_options.values()) if each]
    digests = [_folder_digest(each) if each.is_dir() else (_file_digest(each) or b"").hex() for each in places]
    return "+".join([name, *digests])


def pair_fingerprint(asked: str, before: Path, after: Path) -> str | None:
    """Of a pair asked about in that way; None where a file cannot be read."""
    digest = hashlib.sha256(asked.encode())
    for path in (before, after):
        found = _file_digest(path)
        if found is None:
            return None
        digest.update(found)
    return digest.hexdigest()[:DIGITS]


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    files = [path for path in folder.iterdir() if path.is_file() and path.name not in _TOLD_BY_NO_ANSWER]
    for path in sorted(
        [*files, *folder.glob(f"*/{METADATA}")]
    ):  # of a data set its lists: examples are taken from there
        digest.update(path.name.encode("utf-8", "surrogateescape") + b"\0" + (_file_digest(path) or b""))
    return digest.hexdigest()


def _file_digest(path: Path) -> bytes | None:
    try:
        if isinstance(path, Fetchable):
            return path.digest()
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest()
    except (OSError, ValueError):
        return None
