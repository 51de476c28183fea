"""What a model folder says beside its weights: architecture, words, preprocessing. No torch is needed to read it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spotchange.config.model import ModelSettings
from spotchange.errors import InputError, ModelError
from spotchange.files import load_json
from spotchange.models.vision.preprocess import Preprocessor

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MODEL_TYPE = "spotchange"
INDEX = "model.safetensors.index.json"
SCALE = ".scale"  # ends the name of the tensor that scales a matrix of 8 bits
MODEL_FILES = (
    "config.json", "preprocessor_config.json", "tokenizer.json", INDEX, "model*.safetensors",
    "recipe.yaml", "README.md", "calibration.json", "familiarity.safetensors", "reliability.svg",
    "encoder.onnx", "decoder_step.onnx", "namer.onnx", "onnx.json",
    "training_heads.safetensors", "modeling_spotchange.py",
)  # fmt: skip
# How transformers finds the classes of a folder whose package nobody has imported (trust_remote_code=True).
REMOTE_FILE = "modeling_spotchange.py"
REMOTE_CODE = '''"""Where transformers finds this model's classes; needs `pip install 'spotchange[train]'`."""

from spotchange.models.hub.auto import SpotchangeConfig, SpotchangeModel, SpotchangeProcessor

__all__ = ["SpotchangeConfig", "SpotchangeModel", "SpotchangeProcessor"]
'''
AUTO_MAP = {
    "AutoConfig": "modeling_spotchange.SpotchangeConfig",
    "AutoModel": "modeling_spotchange.SpotchangeModel",
    "AutoProcessor": "modeling_spotchange.SpotchangeProcessor",
}
LAST, BEST = "last", "best"  # checkpoints of a training run, in its folder
ADAPTER_CONFIG = "adapter_config.json"  # what makes a folder a peft adapter, of a vision-language model


@dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """What belongs to a model's weights, so that they cannot disagree."""

    settings: ModelSettings
    tokenizer: Tokenizer
    preprocessor: Preprocessor
    folder: Path

    @property
    def name(self) -> str:
        """What the model is called in results."""
        return called(self.folder)

    @property
    def change_types(self) -> tuple[str, ...]:
        """Names of the change head's answers, "none" first."""
        return self.settings.heads.change_types

    def decode(self, ids: Sequence[int]) -> str:
        """The sentence of token ids, padding and everything from the end token on left out."""
        ids = list(ids)
        if self.settings.vocabulary.end in ids:
            ids = ids[: ids.index(self.settings.vocabulary.end)]
        while ids and ids[-1] == self.settings.vocabulary.pad:
            ids.pop()
        return str(self.tokenizer.decode(ids, skip_special_tokens=True)).strip()


def called(folder: Path) -> str:
    """The name of what lies in a folder: of a checkpoint its run's, which has a `best` and a `last`; in the hub's cache
    the name it has there.
    """
    folder = folder.resolve()
    if folder.name in (LAST, BEST):
        return folder.parent.name
    kept = folder.parents[1].name if folder.parent.name == "snapshots" else ""
    return kept.removeprefix("models--").replace("--", "/") if kept.startswith("models--") else folder.name


def best_of_run(folder: Path) -> Path:
    """The best checkpoint of a training run's folder; any other folder is meant itself."""
    return folder / BEST if _holds_model(folder / BEST) and not _holds_model(folder) else folder


def resolved(name: str) -> str:
    """A model that others made, by its folder if it lies here, else as it is called: `~` is the home folder, which
    shells leave alone behind a colon, and a training run stands for its best checkpoint.
    """
    folder = best_of_run(Path(os.path.expanduser(name)))
    return str(folder) if folder.is_dir() else name


def _holds_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("config.json", ADAPTER_CONFIG))


def check_replaceable(folder: Path, *, force: bool) -> None:
    """Refuse to let a new model take the place of anything but an old one, and of that only where it was asked for."""
    try:
        names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    except NotADirectoryError:
        raise InputError(f"{folder} is a file") from None
    except OSError as error:
        raise InputError(f"cannot look into {folder}: {error.strerror or error}") from error
    foreign = [name for name in names if not any(fnmatch(name, known) for known in MODEL_FILES)]
    if foreign:
        hint = "choose another --out folder; this one is not replaced"
        raise InputError(f"{folder} holds {foreign[0]!r}, which is no part of a model", hint=hint)
    if names and not force:
        raise InputError(f"{folder} exists already", hint="--force replaces it, --out names another")


def read_description(folder: Path) -> ModelDescription:
    """Everything but the weights."""
    from tokenizers import Tokenizer

    settings = read_settings(folder)
    try:
        tokenizer = Tokenizer.from_file(str(needed(folder, "tokenizer.json")))
    except ModelError:
        raise
    except Exception as error:  # the tokenizers library raises bare Exception
        raise ModelError(f"{folder / 'tokenizer.json'} is not a tokenizer: {error}") from error
    preprocessor = Preprocessor.from_dict(read_json(folder, "preprocessor_config.json"))
    return ModelDescription(settings=settings, tokenizer=tokenizer, preprocessor=preprocessor, folder=folder)


def read_settings(folder: Path) -> ModelSettings:
    """Architecture of a model folder."""
    if (folder / ADAPTER_CONFIG).is_file():
        raise ModelError(f"{folder} is an adapter of a vision-language model", hint=f"vlm:{folder}")
    config = read_json(folder, "config.json")
    if config.get("model_type") != MODEL_TYPE:
        raise ModelError(
            f"{folder} is not a spotchange model (its config.json says model_type {config.get('model_type')!r})",
            hint="`spotchange models import` turns CLIP and CLIP4IDC checkpoints into one; vlm:FOLDER asks others",
        )
    return ModelSettings.from_mapping(config.get("settings", {}), source=str(folder / "config.json"))


def weight_files(folder: Path) -> dict[str, str | None]:
    """The files that hold the weights, and their checksums where the index has them."""
    index = read_json(folder, INDEX) if (folder / INDEX).exists() else {}
    try:
        checksums = dict(index.get("metadata", {}).get("sha256", {}))
        names = sorted(set(index.get("weight_map", {}).values())) or ["model.safetensors"]
        if any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
            raise ValueError("it names files outside the folder")
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelError(f"{folder / INDEX} is not an index of weights ({error})") from error
    return {name: checksums.get(name) for name in names}


def needed(folder: Path, name: str) -> Path:
    """A file of the folder, or one line that says it is missing."""
    if not (folder / name).is_file():
        what = f"{folder} has no {name}" if folder.is_dir() else f"there is no model folder {folder}"
        raise ModelError(what)
    return folder / name


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object of the folder."""
    try:
        values = load_json(needed(folder, name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder / name} is not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise ModelError(f"{folder / name} must hold a JSON object")
    return values


def sha256(path: Path) -> str:
    """A file's checksum."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sum(path: Path, expected: str | None, *, source: str) -> None:
    """Refuse a file that is not the one `source` was written for."""
    if expected is not None and sha256(path) != expected:
        raise ModelError(f"{path} is damaged: its checksum is not the one in {source}", hint="copy it again")


def as_json(values: dict[str, Any]) -> str:
    """As every JSON file of a folder is written."""
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
