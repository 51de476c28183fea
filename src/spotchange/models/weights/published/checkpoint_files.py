"""Reading other people's weight files without running anything in them."""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spotchange.errors import ModelError
from spotchange.models.weights.published.script_archive import UnsafeArchiveError, read_script_archive

# Change captioning programs save their settings beside the weights, in a mapping that answers to attributes.
_MAPPINGS: list[Any] = [(OrderedDict, "utils.attr_dict.AttrDict"), (OrderedDict, "easydict.EasyDict")]


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Tensors by name from .safetensors, a torch archive or a TorchScript archive."""
    if not path.is_file():
        raise ModelError(f"there is no file {path}")
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    return _tensors_in(_read_script(path) if _is_script(path) else _read_pickle(path), path)


def read_nested(path: Path) -> dict[str, Any]:
    """What a file holds, mappings within mappings as they are."""
    if not path.is_file():
        raise ModelError(f"there is no file {path}")
    found = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
    if not isinstance(found, dict):
        raise ModelError(f"{path} holds no mapping of names to tensors")
    return found


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(str(path))
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} is not a complete safetensors file: {error}") from error


def _is_script(path: Path) -> bool:
    """TorchScript archives (OpenAI's downloads) hold code beside the tensors."""
    try:
        if not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return False  # torch says what is wrong with it


def _read_pickle(path: Path) -> Any:
    try:
        with torch.serialization.safe_globals(_MAPPINGS):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # What torch says before that is how to run it nevertheless.
        reason = str(error).partition("WeightsUnpickler error:")[2].strip().partition("\n")[0] or "it is no torch file"
        raise ModelError(
            f"{path} holds more than weights, and running what it holds is not safe: {reason}",
            hint="load it where you trust it and save its state_dict() as .safetensors",
        ) from error
    except Exception as error:  # a damaged archive fails in as many ways as it has layers
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"{path} is not a complete torch file: {reason}") from error


def _read_script(path: Path) -> Any:
    try:
        return read_script_archive(path)
    except UnsafeArchiveError as error:
        raise ModelError(
            f"{path} cannot be read as weights alone: {error}",
            hint="load it where you trust it and save its state_dict() as .safetensors",
        ) from error
    except Exception as error:  # a damaged archive fails in as many ways as it has layers
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"{path} is not a complete TorchScript file: {reason}") from error


def _tensors_in(content: Any, path: Path) -> dict[str, Tensor]:
    """The state dict itself, or the one that training programs wrap with other things."""
    for wrapper in ("state_dict", "model_state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict):
        raise ModelError(f"{path} holds no weights by name")
    tensors = {str(name).removeprefix("module."): value for name, value in content.items() if isinstance(value, Tensor)}
    if not tensors:
        raise ModelError(f"{path} holds no weights by name")
    return tensors
