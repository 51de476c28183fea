"""What a step does to the weights: groups with rates and decay, the optimizer over them, and the moving average."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from spotchange.config.training import OptimizerSettings, ScheduleSettings
from spotchange.errors import ConfigError


def rate_factor(progress: float, schedule: ScheduleSettings) -> float:
    """What the peak learning rate is multiplied by when `progress` (0 to 1) of the plan is done."""
    progress = min(max(progress, 0.0), 1.0)
    dropped = schedule.drop_to ** sum(progress >= place for place in schedule.drop_at)
    if progress < schedule.warmup:
        return dropped * progress / schedule.warmup
    done = (progress - schedule.warmup) / max(1.0 - schedule.warmup, 1e-12)
    falling = {
        "cosine": 0.5 * (1.0 + math.cos(math.pi * done)),
        "whole-cosine": 0.5 * (1.0 + math.cos(math.pi * progress)),
        "linear": 1.0 - done,
        "inverse-sqrt": math.sqrt(schedule.warmup / progress) if schedule.warmup else 1.0,
        "constant": 1.0,
    }[schedule.shape]
    return dropped * (schedule.final + (1.0 - schedule.final) * falling)


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
        rate = group["peak_lr"] * factor
        if isinstance(group["lr"], Tensor):  # a recorded update reads it there
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


class BertAdam(torch.optim.Optimizer):
    """The optimizer of the published CLIP4IDC: Adam without bias correction, decay beside the gradient.

    step = rate * (m / (sqrt(v) + eps) + decay * weight), m and v being plain moving averages that start at zero.
    Parameters in a group with `half` are kept as the published program keeps most of CLIP: weights, averages and the
    arithmetic of the step in half precision, without a full-precision copy. There v underflows to zero for small
    gradients, so that a step becomes rate * m / eps, and steps under half a unit of the weight vanish: at the published
    rate of 1e-7 this is another training than the same in full precision.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "half": False})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)
        return loss

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        half = torch.float16 if group["half"] else parameter.dtype
        state = self.state[parameter]
        if not state:
            state["mean"] = torch.zeros_like(parameter, dtype=half)
            state["square"] = torch.zeros_like(parameter, dtype=half)
        mean, square, gradient = state["mean"], state["square"], gradient.to(half)
        first, second = group["betas"]
        mean.mul_(first).add_(gradient, alpha=1 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        weight = parameter.to(half)
        step = mean / (square.sqrt() + group["eps"])
        if group["weight_decay"]:
            step.add_(weight, alpha=group["weight_decay"])
        parameter.copy_(weight - group["lr"] * step)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's, which makes averages as wide as their parameters: those of `half` groups become narrow again."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            for parameter in group["params"] if group["half"] else ():
                self.state[parameter] = {name: value.half() for name, value in self.state[parameter].items()}


class WeightAverage:
    """Exponential moving average of a module's floating-point parameters.

    The decay grows with the steps taken, so that early averages are not dominated by the random start. The arithmetic
    is torch's own; its `AveragedModel` would keep a copy of frozen parts too, and start from the first update.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self._live = {name: value for name, value in module.named_parameters() if value.requires_grad}
        self.shadow = {name: value.detach().clone() for name, value in self._live.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Move a little towards the live weights."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        get_ema_multi_avg_fn(decay)(list(self.shadow.values()), list(self._live.values()), self.updates)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the average into the module for as long as the context lasts."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, live in self._live.items():
            kept = live.detach().clone()
            live.copy_(self.shadow[name])
            self.shadow[name].copy_(kept)

    def state_dict(self) -> dict[str, Any]:
        """The average and how many steps it has seen."""
        return {"updates": self.updates, "shadow": self.shadow}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved average."""
        self.updates = int(state["updates"])
        for name, value in state["shadow"].items():
            self.shadow[name].copy_(value)
