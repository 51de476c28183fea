"""One model from several that went different ways from the same start: the mean of their weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from spotchange.errors import InputError
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
