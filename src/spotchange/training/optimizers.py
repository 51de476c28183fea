"""Parameters into groups, each with its own learning rate and weight decay, and the optimizer over them."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from spotchange.config.training import OptimizerSettings, ScheduleSettings
from spotchange.errors import ConfigError
from spotchange.training.bert_adam import BertAdam


def rate_factor(progress: float, schedule: ScheduleSettings) -> float:
    """What the peak learning rate is multiplied by when `progress` (0 to 1) of the plan is done."""
    progress = min(max(progress, 0.0), 1.0)
    halved = 0.5 ** sum(progress >= place for place in schedule.halve_at)
    if progress < schedule.warmup:
        return halved * progress / schedule.warmup
    done = (progress - schedule.warmup) / max(1.0 - schedule.warmup, 1e-12)
    falling = {
        "cosine": 0.5 * (1.0 + math.cos(math.pi * done)),
        "whole-cosine": 0.5 * (1.0 + math.cos(math.pi * progress)),
        "linear": 1.0 - done,
        "inverse-sqrt": math.sqrt(schedule.warmup / progress) if schedule.warmup else 1.0,
        "constant": 1.0,
    }[schedule.shape]
    return halved * (schedule.final + (1.0 - schedule.final) * falling)


# Vectors added to tokens: shrinking them towards zero has no meaning, as with biases and norms.
_NOT_DECAYED = ("*positions", "*class_token", "*_vector")
_BLOCK_MATRICES = ("*.attention.*.weight", "*.cross.*.weight", "*.feed_forward.*.weight")


class Optimizers:
    """Several optimizers, each with its own parameters, that step as one."""

    def __init__(self, parts: list[torch.optim.Optimizer]) -> None:
        self.parts = parts

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Of all parts."""
        return [group for part in self.parts for group in part.param_groups]

    def step(self) -> None:
        """Update every parameter."""
        for part in self.parts:
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The parts' states in their order."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        if len(state.get("parts", ())) != len(self.parts):
            raise ValueError("the optimizer was saved with other parts")
        for part, saved in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(saved)


def build_optimizer(module: nn.Module, settings: OptimizerSettings) -> torch.optim.Optimizer | Optimizers:
    """The optimizer over all parameters of `module` that learn; those with rate 0 are frozen on the way."""
    groups = parameter_groups(module, settings)
    if settings.algorithm == "bert-adam":
        return BertAdam(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps)
    adam = torch.optim.AdamW if settings.algorithm == "adamw" else torch.optim.Adam
    on_gpu = all(parameter.is_cuda for group in groups for parameter in group["params"])
    for_adam = [group for group in groups if not group["muon"]]
    rest = adam(for_adam, lr=settings.lr, betas=settings.betas, eps=settings.eps, fused=on_gpu or None)
    matrices = [group for group in groups if group["muon"]]
    if not matrices:
        return rest
    return Optimizers([torch.optim.Muon(matrices, lr=settings.lr, adjust_lr_fn="match_rms_adamw"), rest])


def parameter_groups(module: nn.Module, settings: OptimizerSettings) -> list[dict[str, Any]]:
    """One group for every learning rate, weight decay and optimizer; `peak_lr` is what schedules multiply."""
    unused = set(settings.part_lrs)
    groups: dict[tuple[float, float, bool, bool], dict[str, Any]] = {}
    for name, parameter in module.named_parameters():
        name = name.removeprefix("model.")
        lr = settings.lr
        for pattern, part_lr in settings.part_lrs.items():
            if fnmatchcase(name, pattern):
                lr = part_lr
                unused.discard(pattern)
                break
        if lr == 0:
            parameter.requires_grad_(False)
        if not parameter.requires_grad:
            continue
        decays = _decays_as_published(name) if settings.decayed == "published" else _decays(name, parameter)
        decay = settings.weight_decay if decays else 0.0
        half = any(fnmatchcase(name, pattern) for pattern in settings.half_parts)
        muon = settings.muon and any(fnmatchcase(name, pattern) for pattern in _BLOCK_MATRICES)
        own = {"params": [], "lr": lr, "peak_lr": lr, "weight_decay": decay, "muon": muon, "half": half}
        groups.setdefault((lr, decay, muon, half), own)["params"].append(parameter)
    if unused:
        raise ConfigError(f"optimizer.part_lrs: no parameter is called {', '.join(sorted(unused))}")
    if not groups:
        raise ConfigError("optimizer: every part is frozen, nothing is left to train")
    return list(groups.values())


def _decays(name: str, parameter: nn.Parameter) -> bool:
    return parameter.ndim >= 2 and not any(fnmatchcase(name, pattern) for pattern in _NOT_DECAYED)


def _decays_as_published(name: str) -> bool:
    return not (name.endswith("bias") or fnmatchcase(name, "captioner.*norm.weight"))


def set_rates(optimizer: torch.optim.Optimizer | Optimizers, factor: float) -> None:
    """Put every group at `factor` of its own peak."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak_lr"] * factor
