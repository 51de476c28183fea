"""Published checkpoints of these systems as model folders: their weights, their words, and the ResNet they read.

The programs save one mapping of tensors for each part (`change_detector_state`, `speaker_state`, `encoder`, ...); names
inside are those that the rebuilt systems have. Words come from the file that numbers them (`vocab.json`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from spotchange.config.model import ModelSettings
from spotchange.errors import ModelError
from spotchange.files import load_json, read_input
from spotchange.language.vocabulary import BOS, EOS, PAD, UNK
from spotchange.models.baselines.dynamic_system import DynamicSystem
from spotchange.models.baselines.lstm_system import LstmSystem
from spotchange.models.baselines.skeleton import Baseline
from spotchange.models.weights.published.checkpoint_files import read_nested

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from spotchange.models.weights.folder import LoadedModel

_SPECIAL = {
    "pad": ("<NULL>", "<pad>", "<PAD>", "<null>"),
    "unknown": ("<UNK>", "<unk>"),
    "begin": ("<START>", "<start>", "<bos>", "<BOS>"),
    "end": ("<END>", "<end>", "<eos>", "<EOS>"),
}
_COMPUTED = (".pe", "position_enc.pe", "num_batches_tracked")  # tables that these systems compute anew


def import_baseline(source: Path, *, system: str, words: Path, resnet: str, image_size: tuple[int, int]) -> LoadedModel:
    """A published checkpoint as a model.

    Args:
        source: the checkpoint.
        system: its name in the table of systems.
        words: JSON of words to numbers.
        resnet: folder or hub name of the ResNet, in transformers' format, whose features it was trained on.
        image_size: height and width that images are squeezed to.
    """
    from spotchange.models.build import build_model, preprocessor_for, settings_for
    from spotchange.models.weights.folder import LoadedModel, check_state

    numbers = read_words(words)
    values = {
        "preset": "baseline",
        "vision": {"resnet": resnet, "image_size": list(image_size), **_shape_of(resnet)},
        "baseline": {"system": system, "as_published": True},
    }
    settings = ModelSettings.from_mapping(values, source=str(source))
    draft = build_model(settings.model_copy(update={"vocabulary": _sized(settings, len(numbers))}))
    assert isinstance(draft, Baseline)
    # The LSTM programs know no end: they learn the padding after the last word as one.
    padding_ends = isinstance(draft.system, DynamicSystem | LstmSystem)
    tokenizer = tokenizer_of(numbers, padding_ends=padding_ends)
    settings = settings_for(settings, tokenizer)
    model = build_model(settings)
    assert isinstance(model, Baseline)
    state = published_state(read_nested(source))
    own = model.system.state_dict()
    # What has no published counterpart is not learnt: counts of batches, labels of words.
    state |= {name: own[name] for name in own if name not in state and not own[name].is_floating_point()}
    check_state(model.system, state, source=str(source))
    model.system.load_state_dict(state)
    return LoadedModel(
        model=model.eval(),
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=preprocessor_for(settings),
        folder=source,
    )


def published_state(found: dict[str, Any]) -> dict[str, Tensor]:
    """Tensors by the systems' own names, from parts or from one mapping."""
    state: dict[str, Tensor] = {}
    for name, value in found.items():
        if isinstance(value, Tensor):
            state[name.removeprefix("module.")] = value
        elif isinstance(value, dict) and any(isinstance(each, Tensor) for each in value.values()):
            part = name.removesuffix("_state").removesuffix("_dict").removesuffix("_state")
            state |= {
                f"{part}.{inner.removeprefix('module.')}": each
                for inner, each in value.items()
                if isinstance(each, Tensor)
            }
    return {name: value.float() for name, value in state.items() if not name.endswith(_COMPUTED)}


def read_words(path: Path) -> dict[str, int]:
    """Words to numbers, without gaps."""
    try:
        found = load_json(read_input(path))
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read the words in {path}: {error}") from error
    if not isinstance(found, dict) or sorted(found.values()) != list(range(len(found))):
        raise ModelError(f"{path} must number its words from 0 without gaps, as {{word: number}}")
    return found


def tokenizer_of(numbers: dict[str, int], *, padding_ends: bool) -> Tokenizer:
    """A word-level tokenizer with the published numbers and our names of the special ones."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    names = {role: next((n for n in names if n in numbers), None) for role, names in _SPECIAL.items()}
    missing = [role for role, name in names.items() if name is None]
    if missing:
        raise ModelError(f"the words have no {', '.join(missing)} mark that spotchange knows, such as <START>")
    ours = {"pad": EOS if padding_ends else PAD, "end": PAD if padding_ends else EOS, "begin": BOS, "unknown": UNK}
    renamed = {names[role]: ours[role] for role in ours}
    vocabulary = {renamed.get(word, word): number for word, number in numbers.items()}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.add_special_tokens([BOS, EOS, PAD, UNK])
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(behavior="removed")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A {EOS}", special_tokens=[(BOS, vocabulary[BOS]), (EOS, vocabulary[EOS])]
    )
    return tokenizer


def _sized(settings: ModelSettings, words: int) -> Any:
    return settings.vocabulary.model_copy(update={"size": words})


def _shape_of(resnet: str) -> dict[str, Any]:
    """Depths, widths and stride of a ResNet folder, cut after the third stage; ResNet-101's for a hub name."""
    path = Path(resnet) / "config.json"
    if not path.is_file():
        return {"resnet_depths": [3, 4, 23], "resnet_channels": [256, 512, 1024]}
    config = load_json(read_input(path))
    return {
        "resnet_depths": config["depths"][:3],
        "resnet_channels": config["hidden_sizes"][:3],
        "resnet_stride_first": bool(config.get("downsample_in_bottleneck", False)),
    }
