"""Student's paired test over seeds, against values from tables."""

from __future__ import annotations

import pytest

from spotchange.training.ablation.paired import paired_test, quantile, within


@pytest.mark.parametrize(("freedom", "t"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (7, 2.365), (30, 2.042)])
def test_quantiles_are_those_of_the_tables(freedom: int, t: float) -> None:
    assert quantile(0.95, freedom) == pytest.approx(t, abs=5e-4)
    assert within(t, freedom) == pytest.approx(0.95, abs=1e-4)


def test_a_difference_by_hand() -> None:
    """Differences 1, 2, 3, 6: mean 3, deviation 2.160, error 1.080, t 2.777 with 3 degrees of freedom."""
    test = paired_test({1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0, 9: 0.0}, {1: 11.0, 2: 12.0, 3: 13.0, 4: 16.0})
    assert test is not None
    assert (test.seeds, test.difference) == (4, 3.0)
    assert test.low == pytest.approx(3 - 3.182 * 1.0801, abs=1e-3)
    assert test.high == pytest.approx(3 + 3.182 * 1.0801, abs=1e-3)
    assert test.p_value == pytest.approx(0.0692, abs=5e-4)


def test_too_few_seeds_or_no_spread() -> None:
    assert paired_test({1: 1.0}, {1: 2.0}) is None
    same = paired_test({1: 1.0, 2: 1.0}, {1: 1.0, 2: 1.0})
    assert same is not None
    assert same.p_value == 1.0
