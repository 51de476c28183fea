"""Weights of one model into another that is not quite the same: the next stage, another split, another size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from spotchange.config.model import ModelSettings
from spotchange.errors import InputError, ModelError
from spotchange.models.vision.vit import interpolate_positions
from spotchange.models.weights.folder import LoadedModel, load_model


def average(folders: Sequence[Path]) -> LoadedModel:
    """The first model with every weight replaced by the mean over all of them, computed in double precision."""
    loaded = [load_model(folder) for folder in folders]
    first = loaded[0]
    for other in loaded[1:]:
        if other.settings != first.settings:
            raise InputError(f"{other.folder} and {first.folder} have different settings and cannot be averaged")
        if other.tokenizer.to_str() != first.tokenizer.to_str():
            raise InputError(f"{other.folder} and {first.folder} have different words and cannot be averaged")
    states = [each.model.state_dict() for each in loaded]
    mean = {
        name: torch.stack([state[name].double() for state in states]).mean(dim=0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in states[0].items()
    }
    first.model.load_state_dict(mean)
    return first


_INTRA, _INTER = "encoder.backbone.blocks.", "encoder.inter."
_POSITIONS = ("encoder.backbone.positions", "encoder.joint_positions")
_OF_WORDS = ("words.words.weight", "words.positions", "captioner.predict.weight", "captioner.predict.bias")
_TEXT_TRANSFORMER, _LANGUAGE = "text_encoder.transformer.", "captioner.language."


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """What became of the tensors, by name."""

    taken: tuple[str, ...]
    fresh: tuple[str, ...]  # of the new model, not in the old one: they keep their random start
    unused: tuple[str, ...]  # of the old model, with no place in the new one


def take_weights(model: nn.Module, state: dict[str, Tensor], *, source: str) -> Transfer:
    """Load what has a place in `model`; a tensor of another shape is a mistake, unless it is of other words."""
    wanted = model.state_dict()
    fits = {name: value for name, value in state.items() if name in wanted and value.shape == wanted[name].shape}
    wrong = [name for name in state if name in wanted and name not in fits]
    wrong_words = {name for name in wrong if name in _OF_WORDS}
    wrong = [name for name in wrong if name not in wrong_words]
    if wrong:
        listed = "; ".join(f"{name} has shape {list(state[name].shape)} instead of {list(wanted[name].shape)}"
                           for name in wrong[:6])  # fmt: skip
        more = f" and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        raise ModelError(f"{source} does not fit the model: {listed}{more}")
    if not any(name.startswith("encoder.") for name in fits):
        raise ModelError(f"{source} has nothing that fits this model's encoder")
    model.load_state_dict({name: value.to(wanted[name].dtype) for name, value in fits.items()}, strict=False)
    return Transfer(
        taken=tuple(fits),
        fresh=tuple(name for name in wanted if name not in fits),
        unused=tuple(name for name in state if name not in fits),
    )


def refit(state: dict[str, Tensor], old: ModelSettings, new: ModelSettings) -> dict[str, Tensor]:
    """The same weights, named and shaped for `new`: its split of blocks, its patch grid, its language encoder."""
    refitted = {_moved_block(name, old, new): value for name, value in state.items()}
    for name in _POSITIONS:
        if name in refitted and old.vision.grid != new.vision.grid:
            refitted[name] = interpolate_positions(refitted[name], old.vision.grid, new.vision.grid)
    if new.architecture == "ft1" and old.architecture != "ft1":
        refitted |= {
            name.replace(_TEXT_TRANSFORMER, _LANGUAGE, 1): value
            for name, value in refitted.items()
            if name.startswith(_TEXT_TRANSFORMER)
        }
    return refitted


def _moved_block(name: str, old: ModelSettings, new: ModelSettings) -> str:
    """Blocks keep their place in the whole stack, wherever the two models draw the line in it."""
    if name.startswith(_INTRA):
        number, _, rest = name.removeprefix(_INTRA).partition(".")
        place = int(number)
    elif name.startswith(_INTER):
        number, _, rest = name.removeprefix(_INTER).partition(".")
        place = int(number) + old.vision.intra
    else:
        return name
    if place < new.vision.intra:
        return f"{_INTRA}{place}.{rest}"
    return f"{_INTER}{place - new.vision.intra}.{rest}"
