"""Scenes rendered once: every run reads the same ones, each in its own order, and rows are what the stream gives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from spotchange.config.training import Recipe
from spotchange.errors import DataError
from spotchange.training.sources.build import held_out_pairs, pairs_of, run_context, training_batches
from spotchange.training.sources.interface import RunContext
from spotchange.training.start import start_model

SCENES, PAIRS = 6, 4


@pytest.fixture
def opened(tmp_path: Path):
    def make(seed: int) -> tuple[Recipe, RunContext]:
        recipe = Recipe.from_mapping(
            {
                "name": "kept",
                "seed": seed,
                "model": {"preset": "spotchange-tiny"},
                "data": {"kind": "stream", "kept": str(tmp_path / "kept"), "kept_scenes": SCENES},
                "stage": {"objective": {"kind": "caption"}, "steps": 1, "pairs_per_step": PAIRS},
                "validation": {"pairs": 4, "pairs_per_batch": 4},
            },
            source="test",
        )
        return recipe, run_context(recipe, start_model(recipe), device=torch.device("cpu"))

    return make


def epoch(source) -> dict[int, torch.Tensor]:
    """Images after, by scene and row."""
    found = {}
    for _ in range(2 * SCENES // PAIRS):
        batch = source.next_batch()
        assert torch.equal(batch.before[::2], batch.before[1::2])
        assert (batch.change_type[1::2] == 0).all()
        for row, scene in enumerate(batch.scene_id.tolist()):
            found[2 * scene + row % 2] = batch.after[row]
    return found


def test_every_seed_reads_the_same_scenes_in_its_own_order(opened, tmp_path: Path) -> None:
    first, second = training_batches(*opened(1)), training_batches(*opened(2))
    assert len(list((tmp_path / "kept").glob("train-*.pt"))) == 1
    one, other = epoch(first), epoch(second)
    assert len(one) == 2 * SCENES  # every scene once
    assert list(one) != list(other)
    assert sorted(one) == sorted(other)
    assert all(torch.equal(one[key], other[key]) for key in one)
    (kept,) = (tmp_path / "kept").glob("train-*.pt")
    kept.write_bytes(kept.read_bytes()[:1000])
    with pytest.raises(DataError, match="damaged"):
        training_batches(*opened(3))


def test_kept_rows_are_those_of_the_stream(opened) -> None:
    recipe, run = opened(1)
    expected = next(pairs_of(recipe.data).stream(run, 2 * SCENES, seed=42))
    found = {}
    source = training_batches(recipe, run)
    for _ in range(2 * SCENES // PAIRS):
        batch = source.next_batch()
        for row in range(0, PAIRS, 2):
            found[int(batch.scene_id[row])] = batch[row : row + 2]
    for row in range(0, 2 * SCENES, 2):
        kept = found[int(expected.scene_id[row])]
        for name in ("before", "after", "caption_ids", "change_type", "patch_attributes", "change_mask", "answer"):
            assert torch.equal(getattr(kept, name), getattr(expected, name)[row : row + 2]), name


def test_a_source_goes_on_where_another_stopped(opened) -> None:
    straight, resumed = training_batches(*opened(1)), training_batches(*opened(1))
    straight.next_batch()
    resumed.load_state_dict(straight.state_dict())
    assert torch.equal(straight.next_batch().after, resumed.next_batch().after)


def test_held_out_pairs_are_kept_too(opened) -> None:
    first, second = held_out_pairs(*opened(1)), held_out_pairs(*opened(2))
    assert len(first) == 4
    assert first.references == second.references
    assert torch.equal(first.batches[0].after, second.batches[0].after)
    assert first.check is not None
    assert first.check(["nothing has changed"] * 4) == [False, True, False, True]
