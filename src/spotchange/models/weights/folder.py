"""Model folders: everything a trained model is, in files that other tools can read too.

`config.json` (architecture), `model*.safetensors` with an index that names every tensor's file and every
file's checksum (some matrices in 8 bits: `eight_bits.py`), `tokenizer.json`, `preprocessor_config.json`, and whatever
text the maker adds (`recipe.yaml`, `README.md`, `calibration.json`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from spotchange.config.model import ModelSettings
from spotchange.errors import ModelError
from spotchange.files import atomic_path, new_folder, write_text
from spotchange.models.build import build_model, settings_for
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.weights.description import (
    AUTO_MAP,
    INDEX,
    MODEL_TYPE,
    REMOTE_CODE,
    REMOTE_FILE,
    SCALE,
    ModelDescription,
    as_json,
    check_sum,
    needed,
    read_description,
    read_settings,
    sha256,
    weight_files,
)
from spotchange.models.weights.eight_bits import block_matrices, quantized, restored

if TYPE_CHECKING:
    from PIL import Image
    from tokenizers import Tokenizer

EIGHT_BITS = "int8"
_STORED = {
    "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
    EIGHT_BITS: torch.float16,  # of what is not a large matrix
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LoadedModel(ModelDescription):
    """A model with what belongs to it."""

    model: nn.Module

    def preprocess(self, images: Sequence[Image.Image]) -> Tensor:
        """Images as the model's input, on its device."""
        return self.preprocessor(images).to(next(self.model.parameters()).device)


def save_model(
    folder: str | os.PathLike[str],
    *,
    model: nn.Module,
    settings: ModelSettings,
    tokenizer: Tokenizer,
    preprocessor: Preprocessor,
    texts: dict[str, str] | None = None,
    stored: str = "float32",
    max_shard_bytes: int = 4 * 2**30,
    keep_text_encoder: bool = True,
) -> None:
    """Write a model folder, all or nothing; an old one there is replaced when the new one is complete.

    Args:
        texts: further files by name, such as `recipe.yaml` or `README.md`.
        stored: float32, float16, bfloat16 or int8 (matrices of the encoder's blocks, the rest float16): how weights
            lie on disk; they load as float32 again.
        keep_text_encoder: False leaves the text transformer out, for models that only caption.
    """
    state = {name: value.detach() for name, value in model.state_dict().items()}
    # A grid backbone's weights are among these: nobody has to fetch them again from where they once came.
    vision = settings.vision.model_copy(update={"resnet": None, "efficientnet": None})
    settings = settings.model_copy(update={"vision": vision})
    if not keep_text_encoder:
        settings = settings.model_copy(update={"text": settings.text.model_copy(update={"encoder": False})})
        state = {k: v for k, v in state.items() if not k.startswith("text_encoder.") and k != "logit_scale"}
    if stored == EIGHT_BITS:
        state = quantized(state, block_matrices(model))
    with new_folder(Path(folder)) as fresh:
        write_weights(fresh, state, stored=_STORED[stored], max_shard_bytes=max_shard_bytes)
        write_text(fresh / "config.json", as_json(config_of(settings_for(settings, tokenizer))))
        write_text(fresh / "preprocessor_config.json", as_json(preprocessor.to_dict()))
        write_text(fresh / "tokenizer.json", tokenizer.to_str(pretty=False))
        write_text(fresh / REMOTE_FILE, REMOTE_CODE)
        for name, text in (texts or {}).items():
            write_text(fresh / name, text)


def load_model(folder: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> LoadedModel:
    """Read a model folder; weights in fp32, in evaluation mode, on `device`."""
    folder = Path(folder)
    settings = read_settings(folder)
    state = read_weights(folder)
    with torch.device("meta"):  # no time is spent on random weights that would be overwritten
        model = build_model(settings)
    check_state(model, state, source=str(folder))
    model.load_state_dict({name: _to_fp32(value) for name, value in state.items()}, assign=True)
    return LoadedModel(model=model.to(device).eval(), **vars(read_description(folder)))


def config_of(settings: ModelSettings) -> dict[str, Any]:
    """Content of `config.json`; transformers' Auto classes find the model by its type."""
    return {
        "model_type": MODEL_TYPE,
        "architectures": ["SpotchangeModel"],
        "auto_map": AUTO_MAP,
        "dtype": "float32",  # to compute with, however the weights lie on disk
        "settings": settings.model_dump(mode="json"),
    }


def write_weights(folder: Path, state: dict[str, Tensor], *, stored: torch.dtype, max_shard_bytes: int) -> None:
    """Weights as one or more safetensors files, and an index with checksums."""
    from safetensors.torch import save_file

    shards: list[dict[str, Tensor]] = [{}]
    filled = total = 0
    for name, value in state.items():
        kept = not value.is_floating_point() or name.endswith(SCALE)
        value = value.to("cpu", value.dtype if kept else stored).contiguous()
        if shards[-1] and filled + value.nbytes > max_shard_bytes:
            shards.append({})
            filled = 0
        shards[-1][name] = value.clone() if value.data_ptr() == state[name].data_ptr() else value
        filled += value.nbytes
        total += value.nbytes
    files: dict[str, str] = {}
    checksums: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        single = len(shards) == 1
        file = "model.safetensors" if single else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        with atomic_path(folder / file) as temporary:  # also gives it the permissions of a plain file
            save_file(shard, str(temporary), metadata={"format": "pt"})
        checksums[file] = sha256(folder / file)
        files |= dict.fromkeys(shard, file)
    index = {"metadata": {"total_size": total, "sha256": checksums}, "weight_map": files}
    write_text(folder / INDEX, as_json(index))


def read_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors, as stored but for those of 8 bits; files are checked against the index where there is one."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    state: dict[str, Tensor] = {}
    for name, checksum in weight_files(folder).items():
        path = needed(folder, name)
        check_sum(path, checksum, source=INDEX)
        try:
            state |= load_file(str(path))
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path} is not a complete safetensors file: {error}") from error
    # transformers' save_pretrained puts the wrapper's name in front
    return restored({name.removeprefix("model."): value for name, value in state.items()}, source=str(folder))


def check_state(model: nn.Module, state: dict[str, Tensor], *, source: str) -> None:
    """Raise one message that lists what is missing, unknown or of the wrong shape."""
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    problems = [f"{name} is missing" for name in wanted if name not in state]
    problems += [f"{name} is unknown" for name in state if name not in wanted]
    problems += [
        f"{name} has shape {list(state[name].shape)} instead of {list(shape)}"
        for name, shape in wanted.items()
        if name in state and tuple(state[name].shape) != shape
    ]
    if problems:
        more = f" and {len(problems) - 6} more" if len(problems) > 6 else ""
        raise ModelError(f"{source} does not fit the model: {'; '.join(problems[:6])}{more}")


def _to_fp32(value: Tensor) -> Tensor:
    return value.float() if value.is_floating_point() else value
