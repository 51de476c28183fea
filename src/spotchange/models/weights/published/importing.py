"""Weights in: CLIP from the hub, from a folder or a file, and the published CLIP4IDC and IDC-PCL checkpoints.

IDC-PCL's have a module of their own. Every other source becomes tensors in OpenAI's layout first; then one path
checks, renames and saves them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from spotchange.config.model import ModelSettings
from spotchange.errors import InputError, ModelError
from spotchange.files import load_json, read_input
from spotchange.models.build import build_model, vocabulary_of
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.weights.folder import LoadedModel, save_model
from spotchange.models.weights.published.checkpoint_files import read_checkpoint
from spotchange.models.weights.published.clip4idc_layout import TIED, captioner_settings, captioner_weights
from spotchange.models.weights.published.clip_layout import (
    from_openai,
    openai_from_transformers,
    settings_from_shapes,
    strip_text_prefix,
    without_constants,
)
from spotchange.models.weights.published.clip_tokenizer import clip_tokenizer, make_readable
from spotchange.models.weights.published.expected_layout import captioner_shapes, check_shapes, clip_shapes, pair_shapes
from spotchange.models.weights.published.pcl_import import import_pcl
from spotchange.models.weights.published.pcl_layout import is_published_pcl
from spotchange.models.weights.transfer import refit, take_weights

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WEIGHT_FILES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(kw_only=True)
class _Source:
    """What was found: tensors in OpenAI's layout, the published captioner's if any, and what came with them."""

    name: str
    clip: dict[str, Tensor]
    captioner: dict[str, Tensor] = field(default_factory=dict)
    activation: str | None = None
    tokenizer: Tokenizer | None = None
    preprocessor: Preprocessor | None = None


def import_model(
    source: str | os.PathLike[str],
    *,
    activation: str | None = None,
    n_inter: int | None = None,
    image_size: tuple[int, int] | None = None,
    resize: str = "squash",
    words: Path | None = None,
    resnet: str | None = None,
    heads: int | None = None,
) -> LoadedModel:
    """Read CLIP, CLIP4IDC or IDC-PCL weights as a model; what the source has no weights for starts random, seeded.

    Args:
        source: a checkpoint file, a folder in transformers' format, or a name on the Hugging Face hub.
        activation: "gelu" or "quick_gelu", for files that do not say.
        n_inter: blocks that look at both images; default: a quarter.
        image_size: height and width to use the model with; its position embeddings are stretched.
        resize: "squash" shows the model the whole image; "crop" is CLIP's own way, which cuts off the sides
            of wide images, where changes happen too.
        words: For IDC-PCL: its dictionary.
        resnet: For IDC-PCL: the network that its features come from.
        heads: For IDC-PCL: of attention, if not as many as published.
    """
    path = Path(source)
    state = read_checkpoint(path) if path.is_file() else None
    if state is not None and is_published_pcl(state):
        return import_pcl(state, source=str(source), words=words, resnet=resnet, heads=heads)
    if words is not None or resnet is not None or heads is not None:
        raise InputError(f"{source} is not an IDC-PCL checkpoint: --words, --resnet and --heads belong to those")
    found = _from_file(path, state) if state is not None else _find(source)
    settings = _settings(found, activation or found.activation or "gelu", n_inter)
    _check(found, settings)
    if activation is None and found.activation is None:
        raise InputError(
            f"{found.name} does not say which activation it was trained with",
            hint="--activation quick_gelu for OpenAI's weights, --activation gelu for most of open_clip's",
        )
    state = from_openai(found.clip, settings) | captioner_weights(found.captioner)
    if image_size is not None:
        wanted = settings.model_dump()
        wanted["vision"]["image_size"] = image_size
        resized = ModelSettings.from_mapping(wanted, source="--image-size")
        state, settings = refit(state, settings, resized), resized
    model = _build_seeded(settings)
    take_weights(model, state, source=found.name)
    preprocessor = found.preprocessor or Preprocessor(image_size=settings.vision.image_size)
    return LoadedModel(
        model=model.eval(),
        settings=settings,
        tokenizer=_tokenizer(found, settings),
        preprocessor=Preprocessor(
            image_size=settings.vision.image_size, mean=preprocessor.mean, std=preprocessor.std, resize=resize
        ),
        folder=Path(found.name),
    )


def save_imported(imported: LoadedModel, out: str | os.PathLike[str]) -> None:
    """Write what `import_model` gave as a model folder."""
    save_model(
        out,
        model=imported.model,
        settings=imported.settings,
        tokenizer=imported.tokenizer,
        preprocessor=imported.preprocessor,
        texts={"README.md": _card(imported)},
    )


def _card(imported: LoadedModel) -> str:
    vision = imported.settings.vision
    if imported.settings.architecture == "idc-pcl":
        backbone = (
            "grid features made elsewhere" if vision.backbone == "features" else "pictures through a frozen ResNet"
        )
        return f"# {imported.name}\n\nIDC-PCL, imported by spotchange from `{imported.name}`. It reads {backbone}.\n"
    ability = "Captions image pairs." if imported.settings.captioner else "Ranks captions; has no captioner yet."
    return (
        f"# {imported.name}\n\n{ability}\n\nImported by spotchange from `{imported.name}`: {vision.intra} blocks see "
        f"one picture, {vision.inter} see both; pictures of {vision.image_size[0]}x{vision.image_size[1]} pixels. "
        "The licence is that of the original weights.\n"
    )


def _find(source: str | os.PathLike[str]) -> _Source:
    path = Path(source)
    if path.is_dir():
        return _from_folder(path, name=str(source))
    if path.suffix in _WEIGHT_FILES or not _HUB_NAME.fullmatch(str(source)):
        return _from_file(path, read_checkpoint(path))
    return _from_folder(_download(str(source)), name=str(source))


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download

    wanted = ["*.json", "model*.safetensors", "pytorch_model.bin"]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # no network, no such name, no permission: the library's errors have no common base
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"{name} is neither a file or folder here nor a model that could be fetched from the hub: {reason}"
        ) from error


def _from_folder(folder: Path, *, name: str) -> _Source:
    """A folder of transformers' CLIPModel, or one that open_clip wrote."""
    if not (folder / "config.json").is_file() and (folder / "open_clip_config.json").is_file():
        weights = sorted(path for path in folder.glob("open_clip*") if path.suffix in _WEIGHT_FILES)
        file = weights[-1] if weights else folder / "open_clip_model.safetensors"
        return _from_file(file, read_checkpoint(file))
    config = _read_json(folder / "config.json")
    if config.get("model_type") != "clip":
        raise ModelError(f"{name} is not a CLIP model: its config.json says model_type {config.get('model_type')!r}")
    shards = sorted(folder.glob("model*.safetensors")) or [folder / "pytorch_model.bin"]
    state: dict[str, Tensor] = {}
    for shard in shards:
        state |= read_checkpoint(shard)
    tokenizer = folder / "tokenizer.json"
    preprocessor = folder / "preprocessor_config.json"
    return _Source(
        name=name,
        clip=openai_from_transformers(state, source=name),
        activation=config.get("vision_config", {}).get("hidden_act", "quick_gelu"),
        tokenizer=_read_tokenizer(tokenizer) if tokenizer.is_file() else None,
        preprocessor=Preprocessor.from_dict(_read_json(preprocessor)) if preprocessor.is_file() else None,
    )


def _from_file(path: Path, state: dict[str, Tensor]) -> _Source:
    """OpenAI's, open_clip's or CLIP4IDC's."""
    if any(name.startswith("clip.") for name in state):
        clip = {name.removeprefix("clip."): value for name, value in state.items() if name.startswith("clip.")}
        captioner = {
            name.removeprefix("decoder."): value for name, value in state.items() if not name.startswith("clip.")
        }
        return _Source(name=str(path), clip=clip, captioner=captioner, activation="quick_gelu")
    if "vision_model.embeddings.class_embedding" in state:
        raise InputError(f"{path} is one file of a transformers model", hint=f"import its folder: {path.parent}")
    openai_made_it = "input_resolution" in state
    return _Source(
        name=str(path),
        clip=strip_text_prefix(state),
        activation="quick_gelu" if openai_made_it else _open_clip_activation(path.with_name("open_clip_config.json")),
    )


def _open_clip_activation(config: Path) -> str | None:
    if not config.is_file():
        return None
    return "quick_gelu" if _read_json(config).get("model_cfg", {}).get("quick_gelu", False) else "gelu"


def _settings(found: _Source, activation: str, n_inter: int | None) -> ModelSettings:
    values: dict[str, Any] = settings_from_shapes(found.clip, activation=activation, source=found.name)
    values["vision"]["n_inter"] = n_inter
    values["captioner"] = captioner_settings(found.captioner, source=found.name) if found.captioner else None
    return ModelSettings.from_mapping(values, source=found.name)


def _check(found: _Source, settings: ModelSettings) -> None:
    expected = clip_shapes(settings)
    published = bool(found.captioner) or "visual.bef_embedding" in found.clip
    if published:
        expected |= pair_shapes(settings)
    check_shapes(without_constants(found.clip), expected, source=found.name, prefix="clip." if published else "")
    if settings.captioner is not None:
        own = {name: value for name, value in found.captioner.items() if name not in TIED}
        expected = captioner_shapes(settings.captioner, settings.vocabulary.size)
        check_shapes(own, expected, source=found.name, prefix="decoder.")


def _build_seeded(settings: ModelSettings) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(42)
        return build_model(settings)


def _tokenizer(found: _Source, settings: ModelSettings) -> Tokenizer:
    tokenizer = found.tokenizer or clip_tokenizer()
    if vocabulary_of(tokenizer) != settings.vocabulary:
        raise ModelError(f"{found.name}: its {settings.vocabulary.size} words are not those of its tokenizer")
    return tokenizer


def _read_tokenizer(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the tokenizers library raises bare Exception
        raise ModelError(f"{path} is not a tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    make_readable(tokenizer)
    return tokenizer


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = load_json(read_input(path))
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    if not isinstance(values, dict):
        raise ModelError(f"{path} must hold a JSON object")
    return values
