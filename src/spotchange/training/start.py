"""Which model a stage begins with: a new one, a saved one, or a new one that takes over what a saved one knows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from spotchange.config.model import ModelSettings
from spotchange.config.training import Recipe
from spotchange.errors import ModelError
from spotchange.models.build import build_model, settings_for
from spotchange.models.folder import LoadedModel, load_model
from spotchange.models.preprocess import Preprocessor
from spotchange.scenes.vocabulary import TOKENS, build_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_BLOCK = re.compile(r"^encoder\.(backbone\.blocks|inter)\.(\d+)\.")


@dataclass(frozen=True, kw_only=True)
class Start:
    """A model with what belongs to it, and what was new to it."""

    model: nn.Module
    settings: ModelSettings
    tokenizer: Tokenizer
    preprocessor: Preprocessor
    folder: Path | None = None
    fresh: tuple[str, ...] = ()
    """Parts that no saved weight was there for."""


def start_model(recipe: Recipe) -> Start:
    """The model of a recipe, on the CPU; random weights come from torch's generator as it stands."""
    if recipe.stage.start_from is None:
        assert recipe.model is not None  # the recipe was checked
        tokenizer = _tokenizer_for(recipe.model)
        settings = settings_for(recipe.model, tokenizer)
        return Start(
            model=build_model(settings),
            settings=settings,
            tokenizer=tokenizer,
            preprocessor=Preprocessor(image_size=settings.vision.image_size),
        )
    loaded = load_model(recipe.stage.start_from)
    if recipe.model is None:
        return Start(
            model=loaded.model,
            settings=loaded.settings,
            tokenizer=loaded.tokenizer,
            preprocessor=loaded.preprocessor,
            folder=loaded.folder,
        )
    return _take_over(recipe.model, loaded)


def _take_over(wanted: ModelSettings, loaded: LoadedModel) -> Start:
    settings = settings_for(wanted, loaded.tokenizer)
    model = build_model(settings)
    known = _by_depth(loaded.model.state_dict(), loaded.settings)
    target = _by_depth(model.state_dict(), settings)
    wrong = [
        f"{name} is {list(known[name].shape)} there and {list(value.shape)} here"
        for name, value in target.items()
        if name in known and known[name].shape != value.shape
    ]
    if wrong:
        more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        raise ModelError(f"{loaded.folder} does not fit the recipe's model: {'; '.join(wrong[:4])}{more}")
    with torch.no_grad():
        for name, value in target.items():
            if name in known:
                value.copy_(known[name])
    fresh = sorted({name.rpartition(".")[0] or name for name in target if name not in known})
    preprocessor = Preprocessor(
        image_size=settings.vision.image_size,
        mean=loaded.preprocessor.mean,
        std=loaded.preprocessor.std,
        resize=loaded.preprocessor.resize,
    )
    return Start(
        model=model,
        settings=settings,
        tokenizer=loaded.tokenizer,
        preprocessor=preprocessor,
        folder=loaded.folder,
        fresh=tuple(fresh),
    )


def _by_depth(state: dict[str, Tensor], settings: ModelSettings) -> dict[str, Tensor]:
    """Blocks named by their depth in the encoder, so that another split into intra and inter finds them."""

    def rename(match: re.Match[str]) -> str:
        first = 0 if match[1] != "inter" else settings.vision.intra
        return f"encoder.block.{first + int(match[2])}."

    return {_BLOCK.sub(rename, name): value for name, value in state.items()}


def _tokenizer_for(settings: ModelSettings) -> Tokenizer:
    """The scenes' own 80 words where the model has room for just those, else CLIP's word pieces."""
    if settings.vocabulary.size == len(TOKENS):
        return build_tokenizer()
    raise ModelError("TODO")
