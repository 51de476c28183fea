"""Published checkpoints of these systems as model folders: their weights, their words, and the ResNet they read.

The programs save one mapping of tensors for each part (`change_detector_state`, `speaker_state`, ...); names inside are
those that the rebuilt systems have. The satellite systems save the network they tuned, or let drift, as well. Words
come from the file that numbers them (`vocab.json`).
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
from spotchange.models.weights.published.resnet_layout import from_children

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from spotchange.models.weights.folder import LoadedModel

_SPECIAL = {
    "pad": ("<NULL>", "<pad>", "<PAD>", "<null>"),
    "unknown": ("<UNK>", "<unk>"),
    "begin": ("<START>", "<start>", "<bos>", "<BOS>"),
    "end": ("<END>", "<end>", "<eos>", "<EOS>"),
}
_NETWORK = "network"
# What programs call their parts where we call them otherwise. Rel-Att's file of the decoder is one mapping; RSICCformer
# saves whole modules, so that its weights have to be taken out first; 224 pixels give the 14x14 cells it pools to.
_PARTS = {
    "chg2cap": {"encoder": _NETWORK, "encoder_trans": "encoder"},
    "rsiccformer": {"encoder_image": _NETWORK, "encoder_feat": "encoder"},
    "rel-att": {"": "decoder"},
}
_LAST_STAGE = ("chg2cap", "rel-att", "rel-att-static")  # they read the fourth stage, as it is; all others the third
_NEVER_SAVED = "cbr."  # SCORER's program keeps its reasoning to itself: captions do not need it
_COMPUTED = (".pe", "position_enc.pe")  # tables that these systems compute anew


def import_baseline(
    source: Path,
    *,
    system: str,
    words: Path,
    resnet: str,
    image_size: tuple[int, int],
    sizes: dict[str, int] | None = None,
) -> LoadedModel:
    """A published checkpoint as a model.

    Args:
        source: the checkpoint.
        system: its name in the table of systems.
        words: JSON of words to numbers.
        resnet: folder or hub name of the ResNet, in transformers' format, whose features it was trained on.
        image_size: height and width that images are squeezed to.
        sizes: of the system, where they are not the published ones.
    """
    from spotchange.models.build import build_model, preprocessor_for, settings_for
    from spotchange.models.weights.folder import LoadedModel, check_state

    numbers = read_words(words)
    last = system in _LAST_STAGE
    values = {
        "preset": "baseline",
        "vision": {"resnet": resnet, "image_size": list(image_size), **_shape_of(resnet, stages=4 if last else 3)},
        "baseline": {"system": system, "as_published": True, "sizes": ({"pool": 1} if last else {}) | (sizes or {})},
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
    state = published_state(read_nested(source), _PARTS.get(system, {}))
    tuned = {name.removeprefix(f"{_NETWORK}."): state.pop(name) for name in list(state) if name.startswith(_NETWORK)}
    if tuned:
        network = from_children(tuned, source=str(source))
        check_state(model.encoder.network, network, source=f"{source}: its network")
        model.encoder.network.load_state_dict(network)
    own = model.system.state_dict()
    # What has no published counterpart is not learnt: counts of batches, labels of words.
    state |= {
        name: value
        for name, value in own.items()
        if name not in state and (not value.is_floating_point() or name.startswith(_NEVER_SAVED))
    }
    check_state(model.system, state, source=str(source))
    model.system.load_state_dict(state)
    return LoadedModel(
        model=model.eval(),
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=preprocessor_for(settings),
        folder=source,
    )


def published_state(found: dict[str, Any], parts: dict[str, str]) -> dict[str, Tensor]:
    """Tensors by the systems' own names, from parts or from one mapping; `parts` says what is called otherwise here."""
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
    renamed = {_in_our_part(name, parts): value for name, value in state.items() if not name.endswith(_COMPUTED)}
    return {name: value.float() if value.is_floating_point() else value for name, value in renamed.items()}


def _in_our_part(name: str, parts: dict[str, str]) -> str:
    if "" in parts and not name.startswith(f"{parts['']}."):
        return f"{parts['']}.{name}"
    part, _, inner = name.partition(".")
    return f"{parts.get(part, part)}.{inner}"


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


def _shape_of(resnet: str, *, stages: int) -> dict[str, Any]:
    """Depths, widths and stride of a ResNet folder up to the stage that is read; ResNet-101's for a hub name."""
    path = Path(resnet) / "config.json"
    config: dict[str, Any] = {"depths": [3, 4, 23, 3], "hidden_sizes": [256, 512, 1024, 2048]}
    if path.is_file():
        config = load_json(read_input(path))
    return {
        "resnet_stage": stages,
        "resnet_depths": config["depths"][:stages],
        "resnet_channels": config["hidden_sizes"][:stages],
        "resnet_stride_first": bool(config.get("downsample_in_bottleneck", False)),
    }
