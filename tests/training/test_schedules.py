"""The learning rate rises, falls and ends as the recipe says."""

from __future__ import annotations

import pytest

from spotchange.config.training import ScheduleSettings
from spotchange.training.schedules import rate_factor


def test_warmup_rises_linearly_from_zero() -> None:
    schedule = ScheduleSettings(shape="cosine", warmup=0.1)
    assert rate_factor(0.0, schedule) == 0.0
    assert rate_factor(0.05, schedule) == pytest.approx(0.5)
    assert rate_factor(0.1, schedule) == pytest.approx(1.0)


@pytest.mark.parametrize(("shape", "middle", "end"), [("cosine", 0.5, 0.0), ("linear", 0.5, 0.0), ("constant", 1, 1)])
def test_shapes_fall_to_their_end(shape: str, middle: float, end: float) -> None:
    schedule = ScheduleSettings.model_validate({"shape": shape, "warmup": 0.2})
    assert rate_factor(0.6, schedule) == pytest.approx(middle)
    assert rate_factor(1.0, schedule) == pytest.approx(end)
    assert rate_factor(1.7, schedule) == pytest.approx(end)


def test_final_fraction_stays() -> None:
    assert rate_factor(1.0, ScheduleSettings(shape="cosine", final=0.1)) == pytest.approx(0.1)


def test_no_warmup_starts_at_the_peak() -> None:
    assert rate_factor(0.0, ScheduleSettings(shape="linear", warmup=0.0)) == 1.0
