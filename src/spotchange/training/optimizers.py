"""Parameters into groups, each with its own learning rate and weight decay, and the optimizer over them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from spotchange.config.training import OptimizerSettings
from spotchange.errors import ConfigError

# Vectors added to tokens: shrinking them towards zero has no meaning, as with biases and norms.
_NOT_DECAYED = ("*positions", "*class_token", "*_vector")


def build_optimizer(module: nn.Module, settings: OptimizerSettings) -> torch.optim.Optimizer:
    """The optimizer over all parameters of `module` that learn; those with rate 0 are frozen on the way."""
    groups = parameter_groups(module, settings)
    kind = torch.optim.AdamW if settings.decoupled else torch.optim.Adam
    on_gpu = all(parameter.is_cuda for group in groups for parameter in group["params"])
    return kind(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps, fused=on_gpu or None)


def parameter_groups(module: nn.Module, settings: OptimizerSettings) -> list[dict[str, Any]]:
    """One group for every pair of learning rate and weight decay; `peak_lr` is what schedules multiply."""
    unused = set(settings.part_lrs)
    groups: dict[tuple[float, float], dict[str, Any]] = {}
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
        decay = settings.weight_decay if _decays(name, parameter) else 0.0
        group = groups.setdefault((lr, decay), {"params": [], "lr": lr, "peak_lr": lr, "weight_decay": decay})
        group["params"].append(parameter)
    if unused:
        raise ConfigError(f"optimizer.part_lrs: no parameter is called {', '.join(sorted(unused))}")
    if not groups:
        raise ConfigError("optimizer: every part is frozen, nothing is left to train")
    return list(groups.values())


def _decays(name: str, parameter: nn.Parameter) -> bool:
    return parameter.ndim >= 2 and not any(fnmatchcase(name, pattern) for pattern in _NOT_DECAYED)


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Put every group at `factor` of its own peak."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak_lr"] * factor
