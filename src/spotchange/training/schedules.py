"""Learning rate over a stage: a pure function of how far the plan has come, so resuming needs no state."""

from __future__ import annotations

import math

from spotchange.config.training import ScheduleSettings


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
