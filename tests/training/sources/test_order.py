"""The order of an epoch: all units once, alike for everyone, shared by processes, and resumable at any place."""

from __future__ import annotations

import numpy as np
import pytest

from spotchange.errors import ConfigError, DataError
from spotchange.training.sources.order import EpochOrder


def units(order: EpochOrder, batches: int) -> list[int]:
    return [int(unit) for _ in range(batches) for stretch in order.take() for unit in stretch.units]


def test_every_epoch_gives_every_unit_once_in_another_order() -> None:
    seen = units(EpochOrder(7, 2, seed=3), 7)  # two epochs; batches cross the border
    assert sorted(seen[:7]) == sorted(seen[7:]) == list(range(7))
    assert seen[:7] != seen[7:]
    assert seen == units(EpochOrder(7, 2, seed=3), 7)
    assert seen != units(EpochOrder(7, 2, seed=4), 7)


def test_processes_take_the_batches_in_turn() -> None:
    together = units(EpochOrder(12, 3, seed=1), 4)
    first, second = (units(EpochOrder(12, 3, seed=1, rank=rank, processes=2), 2) for rank in (0, 1))
    assert first[:3] + second[:3] + first[3:] + second[3:] == together


def test_without_shuffling_units_stand_as_they_are_and_draws_count_epochs() -> None:
    order = EpochOrder(3, 2, seed=1, shuffle=False, draws=5)
    stretches = [stretch for _ in range(3) for stretch in order.take()]
    assert [unit for stretch in stretches for unit in stretch.units.tolist()] == [0, 1, 2, 0, 1, 2]
    assert [stretch.draws.tolist() for stretch in stretches] == [[0] * 5, [0] * 5, [1] * 5, [1] * 5]
    assert [stretch.places.tolist() for stretch in stretches] == [[0, 1], [2], [0], [1, 2]]


def test_draws_differ_between_epochs_and_are_those_of_seed_and_epoch() -> None:
    order = EpochOrder(4, 4, seed=9)
    first, second = order.take()[0].draws, order.take()[0].draws
    assert len(first) == 4
    assert not np.array_equal(first, second)
    assert np.array_equal(order.at(0)[0].draws, first)


def test_it_goes_on_where_it_stopped_with_any_batch_size() -> None:
    straight = EpochOrder(5, 1, seed=2)
    expected = units(straight, 12)
    stopped = EpochOrder(5, 2, seed=2)
    units(stopped, 3)
    resumed = EpochOrder(5, 3, seed=2)
    resumed.load_state_dict(stopped.state_dict())
    assert units(resumed, 2) == expected[6:]
    older = EpochOrder(5, 3, seed=2)
    older.load_state_dict({"position": 6})  # saved before seed and size were
    assert units(older, 2) == expected[6:]


def test_another_set_or_seed_is_refused() -> None:
    state = EpochOrder(5, 1, seed=2).state_dict()
    with pytest.raises(DataError, match="the data had units 5, now it has 6"):
        EpochOrder(6, 1, seed=2).load_state_dict(state)
    with pytest.raises(DataError, match="the data had seed 2, now it has 3"):
        EpochOrder(5, 1, seed=3).load_state_dict(state)
    with pytest.raises(ConfigError, match="rank 2 is not one of 2"):
        EpochOrder(5, 1, seed=2, rank=2, processes=2)
