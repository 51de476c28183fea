"""Mixes of sources: their shares, and going on where they stopped."""

from __future__ import annotations

from dataclasses import replace

import torch

from spotchange.training.sources.combined import ChangedBatches, MixedBatches


class Labelled:
    """Batches that say where they come from."""

    def __init__(self, make_batch, label: int, *, paired: bool = True) -> None:
        self.make_batch, self.label, self.paired, self.given = make_batch, label, paired, 0
        self.shares_before = False

    def next_batch(self):
        self.given += 1
        batch = self.make_batch(2, seed=1)
        return replace(batch, scene_id=torch.tensor([self.label, self.given]))

    def state_dict(self):
        return {"given": self.given}

    def load_state_dict(self, state) -> None:
        self.given = state["given"]


def test_batches_are_drawn_by_weight(make_batch) -> None:
    mix = MixedBatches([Labelled(make_batch, 0), Labelled(make_batch, 1)], [3.0, 1.0], seed=1)
    drawn = [int(mix.next_batch().scene_id[0]) for _ in range(400)]
    assert 60 < sum(drawn) < 140


def test_a_mix_is_paired_only_if_all_are(make_batch) -> None:
    assert not MixedBatches([Labelled(make_batch, 0), Labelled(make_batch, 1, paired=False)], None, seed=1).paired


def test_a_mix_goes_on_where_it_stopped(make_batch) -> None:
    def build() -> MixedBatches:
        return MixedBatches([Labelled(make_batch, 0), Labelled(make_batch, 1)], None, seed=2)

    straight, stopped, resumed = build(), build(), build()
    expected = [straight.next_batch().scene_id.tolist() for _ in range(30)]
    for _ in range(11):
        stopped.next_batch()
    resumed.load_state_dict(stopped.state_dict())
    assert [resumed.next_batch().scene_id.tolist() for _ in range(19)] == expected[11:]


def test_changed_batches_keep_the_sources_state(make_batch) -> None:
    source = ChangedBatches(Labelled(make_batch, 0), lambda batch: replace(batch, before=batch.after))
    batch = source.next_batch()
    assert torch.equal(batch.before, batch.after)
    assert source.state_dict() == {"given": 1}
