"""Which model a stage begins with: a new one, a saved one, or a new one that takes over what a saved one knows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import nn

from spotchange.config.model import ModelSettings
from spotchange.config.training import Recipe
from spotchange.everyday.language.wording import build_tokenizer as everyday_tokenizer
from spotchange.language import TOKENS, build_tokenizer
from spotchange.models.baselines.skeleton import Baseline
from spotchange.models.build import build_model, preprocessor_for, settings_for
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.weights.bundled import BUNDLED, EVERYDAY, bundled_folder, everyday_folder
from spotchange.models.weights.folder import LoadedModel, load_model
from spotchange.models.weights.published.importing import import_model
from spotchange.models.weights.transfer import refit, take_weights
from spotchange.training.sources.build import pairs_of

_SHIPPED = {BUNDLED: bundled_folder, EVERYDAY: everyday_folder}
_WORD_TENSORS = ("words.words.weight", "captioner.predict.weight", "captioner.predict.bias")  # one row a word


def extended(tokenizer: Tokenizer, captions: Iterable[str], *, least: int = 2) -> Tokenizer:
    """The tokenizer with every word that captions use `least` times; one of tokens knows them all already."""
    plan = json.loads(tokenizer.to_str())
    if plan["model"]["type"] != "WordLevel":
        return tokenizer
    vocabulary = plan["model"]["vocab"]
    counts: Counter[str] = Counter()
    for caption in captions:
        text = tokenizer.normalizer.normalize_str(caption) if tokenizer.normalizer else caption
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    fresh = sorted(word for word, count in counts.items() if count >= least and word not in vocabulary)
    first = 1 + max(vocabulary.values())
    vocabulary.update({word: first + place for place, word in enumerate(fresh)})
    return Tokenizer.from_str(json.dumps(plan))


@torch.no_grad()
def keep_known_words(model: nn.Module, old_state: dict[str, torch.Tensor]) -> None:
    """Give the first rows of `model`'s word tensors the values they had; rows of new words keep their random start."""
    state = model.state_dict()
    for name in _WORD_TENSORS:
        if name in state and name in old_state:
            known = min(len(state[name]), len(old_state[name]))
            state[name][:known] = old_state[name][:known]


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
        assert isinstance(recipe.model, ModelSettings)  # the recipe was checked
        tokenizer = _with_new_words(_tokenizer_for(recipe.model), recipe)
        settings = settings_for(recipe.model, tokenizer)
        return Start(
            model=_told_words(build_model(settings), tokenizer),
            settings=settings,
            tokenizer=tokenizer,
            preprocessor=preprocessor_for(settings),
        )
    loaded = _read(recipe.stage.start_from)
    wanted = recipe.model if isinstance(recipe.model, ModelSettings) else None
    return _go_on(loaded, wanted, _with_new_words(loaded.tokenizer, recipe), recipe.stage.start_parts)


def _told_words(model: nn.Module, tokenizer: Tokenizer) -> nn.Module:
    """The same model; one of the published systems that learn labels of words looks at them now."""
    if isinstance(model, Baseline):
        model.system.take_words([tokenizer.id_to_token(i) or "" for i in range(tokenizer.get_vocab_size())])
    return model


def _with_new_words(tokenizer: Tokenizer, recipe: Recipe) -> Tokenizer:
    return extended(tokenizer, pairs_of(recipe.data).captions()) if recipe.stage.new_words else tokenizer


def _read(source: str) -> LoadedModel:
    """A model that ships, a model folder, or CLIP's weights wherever they lie."""
    folder = _SHIPPED[source]() if source in _SHIPPED else Path(source)
    if (folder / "preprocessor_config.json").is_file() and (folder / "model.safetensors.index.json").is_file():
        return load_model(folder)
    return import_model(source)


def _go_on(
    loaded: LoadedModel, wanted: ModelSettings | None, tokenizer: Tokenizer, parts: tuple[str, ...] | None
) -> Start:
    settings = settings_for(loaded.settings if wanted is None else wanted, tokenizer)
    model = loaded.model
    fresh: tuple[str, ...] = ()
    if settings != loaded.settings or parts is not None:
        model = _told_words(build_model(settings), tokenizer)
        state = refit(loaded.model.state_dict(), loaded.settings, settings)
        if parts is not None:
            state = {name: value for name, value in state.items() if any(fnmatchcase(name, each) for each in parts)}
        fresh = take_weights(model, state, source=str(loaded.folder)).fresh
        keep_known_words(model, state)
    preprocessor = Preprocessor(
        image_size=settings.vision.image_size,
        mean=loaded.preprocessor.mean,
        std=loaded.preprocessor.std,
        resize=loaded.preprocessor.resize,
    )
    return Start(
        model=model,
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=preprocessor,
        folder=loaded.folder,
        fresh=fresh,
    )


def _tokenizer_for(settings: ModelSettings) -> Tokenizer:
    """The scenes' own 80 words where the model has room for just those, everyday frames, or CLIP's tokens."""
    if settings.vocabulary.size == len(TOKENS):
        return build_tokenizer()
    if settings.heads.nouns:
        return everyday_tokenizer()
    from spotchange.models.weights.published.clip_tokenizer import clip_tokenizer

    return clip_tokenizer()
