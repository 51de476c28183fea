"""Published IDC-PCL checkpoints as models: their weights, a tokenizer for their words, and a network to see with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from spotchange.config.model import ModelSettings
from spotchange.errors import InputError, ModelError
from spotchange.files import load_json, read_input
from spotchange.models.build import build_model, preprocessor_for, settings_for
from spotchange.models.weights.folder import LoadedModel
from spotchange.models.weights.published.pcl_layout import HEADS, settings_of, weights_of
from spotchange.models.weights.transformers_import import import_transformers

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SPECIAL = ("[PAD]", "[BOS]", "[EOS]", "[UNK]", "[CLS]", "[MASK]")  # ids 0 to 5


def import_pcl(
    state: dict[str, Tensor],
    *,
    source: str,
    words: Path | None = None,
    resnet: str | None = None,
    heads: int | None = None,
) -> LoadedModel:
    """A model from the tensors of a published checkpoint, of any of its stages.

    Args:
        state: Tensors by their published names.
        source: What the checkpoint is called in messages.
        words: The dictionary: a text with a word a line in the order of ids, a JSON list, or a JSON object from word
            to id; the first six are special. Without it words are called by their numbers.
        resnet: A folder or hub name of the network whose last grid the model reads; without it the model reads
            features only.
        heads: Of attention, which no tensor tells; None: the published number.
    """
    values = settings_of(state, source=source, heads=heads or HEADS)
    weights = weights_of(state, values, source=source)
    if resnet is not None:
        values["vision"] |= _network(resnet, channels=values["vision"]["resnet_channels"][-1])
    tokenizer = word_tokenizer(_dictionary(words, values["vocabulary"]["size"]))
    settings = settings_for(ModelSettings.from_mapping(values, source=source), tokenizer)
    model = build_model(settings)
    missing, unknown = model.load_state_dict(weights, strict=False)
    missing = [name for name in missing if not name.startswith("encoder.")]
    if missing or unknown:  # the published names were checked, so this is a mistake in our table of them
        raise ModelError(f"{source}: no place for {unknown[:3]}, no weights for {missing[:3]}")
    return LoadedModel(
        model=model.eval(),
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=preprocessor_for(settings),
        folder=Path(source),
    )


def word_tokenizer(words: list[str]) -> Tokenizer:
    """A tokenizer of whole words in the order of their ids, split at blanks as the published program does."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(_SPECIAL))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[("[BOS]", 1), ("[EOS]", 2)]
    )
    return tokenizer


def _dictionary(path: Path | None, size: int) -> list[str]:
    """Words in the order of ids, the first six under our names."""
    if path is None:
        return [*_SPECIAL, *(f"<{number}>" for number in range(len(_SPECIAL), size))][:size]
    try:
        text = read_input(path)
        content: Any = load_json(text) if path.suffix == ".json" else text.splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the words in {path}: {error}") from error
    if isinstance(content, dict):
        content = [word for word, _ in sorted(content.items(), key=lambda item: item[1])]
    if not isinstance(content, list) or len(content) != size:
        found = len(content) if isinstance(content, list) else "no list of"
        raise InputError(f"{path} has {found} words, but the checkpoint {size}")
    words = [*_SPECIAL, *map(str, content[len(_SPECIAL) :])]
    if len(set(words)) != size:
        raise InputError(f"{path} has a word twice")
    return words


def _network(source: str, *, channels: int) -> dict[str, Any]:
    """Vision settings for a ResNet in transformers' format whose last grid has so many channels."""
    transformers = import_transformers()
    try:
        config = transformers.ResNetConfig.from_pretrained(source)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"--resnet: cannot read a ResNet from {source}: {reason}") from error
    if config.hidden_sizes[-1] != channels:
        raise ModelError(
            f"--resnet: {source} gives {config.hidden_sizes[-1]} channels, the checkpoint reads {channels}"
        )
    return {
        "backbone": "resnet",
        "resnet": source,
        "resnet_channels": list(config.hidden_sizes),
        "freeze_backbone": True,
        "resnet_depths": list(config.depths),
        "resnet_stride_first": bool(config.downsample_in_bottleneck),
    }
