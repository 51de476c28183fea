"""The best checkpoint is the best, and patience runs out when it should."""

from __future__ import annotations

import pytest

from spotchange.errors import ConfigError
from spotchange.training.validation import Selection


def test_higher_is_better_for_scores() -> None:
    selection = Selection("CIDEr-D", patience=2)
    assert [selection.consider({"CIDEr-D": value}, step) for step, value in enumerate((1.0, 0.5, 2.0, 2.0, 1.0))] == [
        True,
        False,
        True,
        False,
        False,
    ]
    assert (selection.best, selection.best_step) == (2.0, 2)
    assert selection.gave_up


def test_lower_is_better_for_losses() -> None:
    selection = Selection("loss", patience=None)
    assert selection.consider({"loss": 3.0}, 1)
    assert selection.consider({"loss": 2.0}, 2)
    assert not selection.consider({"loss": 2.5}, 3)
    assert not selection.gave_up


def test_a_number_that_is_none_never_wins() -> None:
    selection = Selection("loss", patience=None)
    assert not selection.consider({"loss": float("nan")}, 1)
    assert selection.consider({"loss": 3.0}, 2)
    assert not selection.consider({"loss": float("nan")}, 3)


def test_unknown_metric_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match="ROUGE-L"):
        Selection("CIDR", patience=None).consider({"loss": 1.0, "ROUGE-L": 0.4}, 1)


def test_state_comes_back() -> None:
    first, second = Selection("loss", patience=3), Selection("loss", patience=3)
    first.consider({"loss": 1.0}, 4)
    first.consider({"loss": 2.0}, 5)
    second.load_state_dict(first.state_dict())
    assert (second.best, second.best_step, second.waited) == (1.0, 4, 1)


def test_an_equal_value_may_count_as_better() -> None:
    selection = Selection("CIDEr-D", patience=2, equal_is_better=True)
    values = (1.0, 1.0, 0.5, 0.9)
    assert [selection.consider({"CIDEr-D": value}, step) for step, value in enumerate(values)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert selection.best_step == 1
    assert selection.gave_up


def test_early_validations_may_count_without_being_kept() -> None:
    selection = Selection("ROUGE-L", patience=3, keep_after=20)
    assert not selection.consider({"ROUGE-L": 9.0}, 10)
    assert not selection.consider({"ROUGE-L": 9.0}, 20)
    assert selection.consider({"ROUGE-L": 0.1}, 30)
    assert selection.best == 0.1
    late = Selection("ROUGE-L", patience=2, keep_after=20)
    late.consider({"ROUGE-L": 9.0}, 10)
    late.consider({"ROUGE-L": 9.0}, 20)
    assert late.gave_up
