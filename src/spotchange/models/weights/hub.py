"""The thin transformers wrapper: `from_pretrained`, `save_pretrained`, `push_to_hub`, Auto classes.

Importing this module imports transformers and registers the model with its Auto classes; nothing else in
the package does, so captioning from the command line never pays for it.

>>> from transformers import AutoModel
>>> import spotchange.models.weights.hub
>>> model = AutoModel.from_pretrained("models/clip4idc")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from spotchange.config.model import ModelSettings
from spotchange.models.build import build_model
from spotchange.models.interface import DecodingOptions, Generated, VisualState
from spotchange.models.weights.description import MODEL_TYPE
from spotchange.models.weights.transformers_import import import_transformers

transformers: Any = import_transformers()


class SpotchangeConfig(transformers.PretrainedConfig):  # type: ignore[misc]
    """`config.json` of a model folder; `settings` are those of `spotchange.config.model`."""

    model_type = MODEL_TYPE

    def __init__(self, settings: dict[str, Any] | None = None, **kwargs: Any) -> None:
        self.settings = ModelSettings.from_mapping(settings or {}, source="config.json").model_dump(mode="json")
        super().__init__(**kwargs)


class SpotchangeModel(transformers.PreTrainedModel):  # type: ignore[misc]
    """Any architecture of `models/build.py`, as `.model`, behind transformers' loading and saving."""

    config_class = SpotchangeConfig
    base_model_prefix = "model"
    main_input_name = "before"

    def __init__(self, config: SpotchangeConfig) -> None:
        super().__init__(config)
        self.model: Any = build_model(ModelSettings.from_mapping(config.settings, source="config.json"))
        self.post_init()

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


transformers.AutoConfig.register(MODEL_TYPE, SpotchangeConfig, exist_ok=True)
transformers.AutoModel.register(SpotchangeConfig, SpotchangeModel, exist_ok=True)
