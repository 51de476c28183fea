"""Which model a stage begins with: a new one, a saved one, or a new one that takes over what a saved one knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from spotchange.config.model import ModelSettings
from spotchange.config.training import Recipe
from spotchange.models.build import build_model, settings_for
from spotchange.models.folder import LoadedModel, load_model
from spotchange.models.importing import import_model
from spotchange.models.preprocess import Preprocessor
from spotchange.models.transfer import refit, take_weights
from spotchange.scenes.vocabulary import TOKENS, build_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Start:
    """A model with what belongs to it."""

    model: nn.Module
    settings: ModelSettings
    tokenizer: Tokenizer
    preprocessor: Preprocessor
    folder: Path | None = None
    """The model folder it begins from."""
    fresh: tuple[str, ...] = ()
    """Names of weights that no saved one was there for."""


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
    return _go_on(_read(recipe.stage.start_from), recipe.model)


def _read(source: str) -> LoadedModel:
    """A model folder of ours, or CLIP's weights wherever they lie."""
    folder = Path(source)
    if (folder / "preprocessor_config.json").is_file() and (folder / "model.safetensors.index.json").is_file():
        return load_model(folder)
    return import_model(source)


def _go_on(loaded: LoadedModel, wanted: ModelSettings | None) -> Start:
    settings = loaded.settings if wanted is None else settings_for(wanted, loaded.tokenizer)
    model, fresh = loaded.model, ()
    if settings != loaded.settings:
        model = build_model(settings)
        state = refit(loaded.model.state_dict(), loaded.settings, settings)
        fresh = take_weights(model, state, source=str(loaded.folder)).fresh
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
        fresh=fresh,
    )


def _tokenizer_for(settings: ModelSettings) -> Tokenizer:
    """The scenes' own 80 words where the model has room for just those, else CLIP's word pieces."""
    if settings.vocabulary.size == len(TOKENS):
        return build_tokenizer()
    from spotchange.models.clip_tokenizer import clip_tokenizer

    return clip_tokenizer()
