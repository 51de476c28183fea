"""Our models behind transformers' own interfaces: `AutoModel`, `AutoProcessor`, `from_pretrained`, `save_pretrained`.

Importing this module imports transformers and registers the classes; nothing else in the package does, so captioning
never pays for it. Who does not import it says `trust_remote_code=True`: a model folder carries a file that does.

>>> from transformers import AutoModel
>>> model = AutoModel.from_pretrained("models/clip4idc", trust_remote_code=True)  # doctest: +SKIP
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from tokenizers import Tokenizer
from torch import Tensor, nn

from spotchange.config.model import ModelSettings
from spotchange.data.caption_ids import CaptionCoder
from spotchange.errors import ModelError
from spotchange.files import load_json, write_text
from spotchange.image_sources import ImageSource
from spotchange.images import read_image
from spotchange.language import TOKENS, build_tokenizer
from spotchange.models.build import build_model, preprocessor_for
from spotchange.models.interface import DecodingOptions, Generated, VisualState
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
    weight_files,
)
from spotchange.models.weights.folder import read_weights
from spotchange.models.weights.transformers_import import import_transformers

transformers: Any = import_transformers()

_HUB_OPTIONS = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")


class SpotchangeConfig(transformers.PretrainedConfig):  # type: ignore[misc]
    """`config.json` of a model folder; `settings` are those of `spotchange.config.model`."""

    model_type = MODEL_TYPE

    def __init__(self, settings: dict[str, Any] | None = None, **kwargs: Any) -> None:
        self.settings = ModelSettings.from_mapping(settings or {}, source="config.json").model_dump(mode="json")
        super().__init__(**kwargs)
        self.auto_map = dict(AUTO_MAP)  # transformers writes the repository in front, which a copy would not be

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoConfig") -> None:
        """Nothing: folders carry a pointer to the package, not a copy of its code."""


class SpotchangeProcessor(transformers.utils.PushToHubMixin):  # type: ignore[misc]
    """Images to tensors and words to ids and back, as one model wants them."""

    def __init__(self, tokenizer: Tokenizer, preprocessor: Preprocessor, settings: ModelSettings) -> None:
        self.tokenizer, self.preprocessor = tokenizer, preprocessor
        self._words = ModelDescription(
            settings=settings, tokenizer=tokenizer, preprocessor=preprocessor, folder=Path("processor")
        )

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str], **options: Any) -> SpotchangeProcessor:
        """From a model folder or a hub name."""
        config = SpotchangeConfig.from_pretrained(name, **_hub_options(options))
        settings = ModelSettings.from_mapping(config.settings, source="config.json")
        texts = _companions(name, options)
        return cls(*_parts(texts, settings), settings)

    def save_pretrained(self, folder: str | os.PathLike[str], **options: Any) -> None:
        """Write what `from_pretrained` reads beside a model's config."""
        _write_companions(Path(folder), self.tokenizer, self.preprocessor)

    def __call__(
        self,
        before: ImageSource | Sequence[ImageSource],
        after: ImageSource | Sequence[ImageSource],
        captions: str | Sequence[str] | None = None,
        **options: Any,
    ) -> Any:
        """`before` and `after` (pairs, 3, height, width), with captions also `caption_ids` (pairs, words)."""
        sides = {"before": _listed(before), "after": _listed(after)}
        values = {side: self.preprocessor([_image(each) for each in images]) for side, images in sides.items()}
        if captions is not None:
            texts = [captions] if isinstance(captions, str) else list(captions)
            longest = self._words.settings.text.context
            values["caption_ids"], values["caption_mask"] = CaptionCoder(self.tokenizer, max_words=longest).ids(texts)
        return transformers.BatchFeature(values)

    def batch_decode(self, ids: Tensor | Sequence[Sequence[int]], **options: Any) -> list[str]:
        """Sentences of ids (pairs, words)."""
        return [self.decode(row) for row in (ids.tolist() if isinstance(ids, Tensor) else ids)]

    def decode(self, ids: Tensor | Sequence[int], **options: Any) -> str:
        """The sentence of ids."""
        return self._words.decode(ids.tolist() if isinstance(ids, Tensor) else ids)

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoProcessor") -> None:
        """Nothing: see `SpotchangeConfig`."""


class SpotchangeModel(transformers.PreTrainedModel):  # type: ignore[misc]
    """Any architecture of `models/build.py`, as `.model`, behind transformers' loading and saving."""

    config_class = SpotchangeConfig
    base_model_prefix = "model"
    main_input_name = "before"

    def __init__(self, config: SpotchangeConfig) -> None:
        super().__init__(config)
        settings = ModelSettings.from_mapping(config.settings, source="config.json")
        self.model: Any = build_model(settings)
        self._texts: dict[str, str] = {}
        self.post_init()

    @classmethod
    def from_pretrained(cls, name: Any, *arguments: Any, **options: Any) -> Any:
        """As transformers does; the tokenizer comes along, so that `save_pretrained` can write it again."""
        asked = dict(options)
        if name is not None and (state := _eight_bit_state(name, asked)) is not None:
            config = options.pop("config", None) or SpotchangeConfig.from_pretrained(name, **_hub_options(asked))
            loaded = super().from_pretrained(None, *arguments, config=config, state_dict=state, **options)
        else:
            loaded = super().from_pretrained(name, *arguments, **options)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if name is not None:
            model._texts = _companions(name, asked)
        return loaded

    def save_pretrained(self, folder: str | os.PathLike[str], push_to_hub: bool = False, **options: Any) -> None:
        """A whole model folder, which `spotchange.load` opens. A calibration is not taken along: calibrate again."""
        settings = ModelSettings.from_mapping(self.config.settings, source="config.json")
        repository = options.pop("repo_id", None)
        parts = _parts(self._texts, settings)
        super().save_pretrained(folder, **options)
        _write_companions(Path(folder), *parts)
        write_text(Path(folder) / REMOTE_FILE, REMOTE_CODE)
        if push_to_hub:
            self.push_to_hub(repository or Path(folder).name, token=options.get("token"))

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing: `build_model` has given the weights their start."""

    def forward(self, before: Tensor, after: Tensor, caption_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Visual tokens and, with words (pairs, words), the scores of every next one."""
        state = self.model.encode(before, after)
        outputs = {"tokens": state.tokens}
        if caption_ids is not None:
            outputs["logits"] = self.model.caption_logits(state, caption_ids)
        return outputs

    def encode(self, before: Tensor, after: Tensor) -> VisualState:
        """See `CaptioningModel.encode`."""
        result: VisualState = self.model.encode(before, after)
        return result

    def generate(self, state: VisualState, options: DecodingOptions) -> Generated:
        """See `CaptioningModel.generate`."""
        result: Generated = self.model.generate(state, options)
        return result

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoModel") -> None:
        """Nothing: see `SpotchangeConfig`."""


def _companions(name: str | os.PathLike[str], options: dict[str, Any]) -> dict[str, str]:
    """The text files beside the weights that a whole model needs, where they are there."""
    found = {}
    for file in ("tokenizer.json", "preprocessor_config.json"):
        path = transformers.utils.cached_file(
            name, file, _raise_exceptions_for_missing_entries=False, **_hub_options(options)
        )
        if path is not None:
            found[file] = Path(path).read_text(encoding="utf-8")
    return found


def _eight_bit_state(name: str | os.PathLike[str], options: dict[str, Any]) -> dict[str, Tensor] | None:
    """Weights in fp32 where a folder keeps some in 8 bits, which transformers would take for the weights themselves."""
    fetch = functools.partial(transformers.utils.cached_file, name, **_hub_options(options))
    index = fetch(INDEX, _raise_exceptions_for_missing_entries=False)
    if index is None or not any(each.endswith(SCALE) for each in load_json(Path(index).read_bytes())["weight_map"]):
        return None
    for file in weight_files(Path(index).parent):
        fetch(file)
    return {f"model.{each}": value.float() for each, value in read_weights(Path(index).parent).items()}


def _parts(texts: dict[str, str], settings: ModelSettings) -> tuple[Tokenizer, Preprocessor]:
    if "tokenizer.json" in texts:
        tokenizer = Tokenizer.from_str(texts["tokenizer.json"])
    elif settings.vocabulary.size == len(TOKENS):
        tokenizer = build_tokenizer()  # the scenes' own words, which a new model starts with
    else:
        raise ModelError("the model's tokenizer is not known", hint="load it from a folder that has a tokenizer.json")
    if "preprocessor_config.json" in texts:
        return tokenizer, Preprocessor.from_dict(load_json(texts["preprocessor_config.json"]))
    return tokenizer, preprocessor_for(settings)


def _write_companions(folder: Path, tokenizer: Tokenizer, preprocessor: Preprocessor) -> None:
    write_text(folder / "tokenizer.json", tokenizer.to_str(pretty=False))
    write_text(folder / "preprocessor_config.json", as_json(preprocessor.to_dict()))


def _hub_options(options: dict[str, Any]) -> dict[str, Any]:
    return {key: options[key] for key in _HUB_OPTIONS if options.get(key) is not None}


def _listed(images: ImageSource | Sequence[ImageSource]) -> list[Any]:
    return list(images) if isinstance(images, list | tuple) else [images]


def _image(source: Any) -> Image.Image:
    return read_image(source)


transformers.AutoConfig.register(MODEL_TYPE, SpotchangeConfig, exist_ok=True)
transformers.AutoModel.register(SpotchangeConfig, SpotchangeModel, exist_ok=True)
transformers.AutoProcessor.register(SpotchangeConfig, SpotchangeProcessor, exist_ok=True)
