"""The learning rate rises, falls and ends as the recipe says."""

from __future__ import annotations

import pytest

from spotchange.config.training import ScheduleSettings
from spotchange.training.optimizers import rate_factor


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


def test_whole_cosine_is_not_rebased_after_the_warmup() -> None:
    schedule = ScheduleSettings(shape="whole-cosine", warmup=0.1)
    assert rate_factor(0.0999, schedule) == pytest.approx(0.999)
    assert rate_factor(0.1, schedule) == pytest.approx(0.976, abs=1e-3)  # falls at once
    assert rate_factor(0.5, schedule) == pytest.approx(0.5)


def test_inverse_square_root_meets_the_published_rates() -> None:
    schedule = ScheduleSettings(shape="inverse-sqrt", warmup=8000 / 250_000)
    assert 1e-4 * rate_factor(1 / 250_000, schedule) == pytest.approx(1.25e-8)
    assert rate_factor(8000 / 250_000, schedule) == pytest.approx(1.0)
    assert 1e-4 * rate_factor(1.0, schedule) == pytest.approx(1.8e-5, rel=0.01)


def test_rates_drop_at_places() -> None:
    schedule = ScheduleSettings(shape="constant", warmup=0.0, drop_at=(0.1, 0.2))
    assert [rate_factor(progress, schedule) for progress in (0.0, 0.0999, 0.1, 0.2, 1.0)] == [1, 1, 0.5, 0.25, 0.25]
    tenths = schedule.model_copy(update={"drop_to": 0.1})
    assert [rate_factor(progress, tenths) for progress in (0.05, 0.15, 0.9)] == pytest.approx([1, 0.1, 0.01])
    assert ScheduleSettings.model_validate({"shape": "constant", "warmup": 0.0, "halve_at": [0.1, 0.2]}) == schedule
