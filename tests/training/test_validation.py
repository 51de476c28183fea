"""What validation says of captions: right about change or not, true of all pairs, true of those that changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from spotchange.pairs import PairBatch
from spotchange.training.validation import HeldOut, Validator, _ranks

CAPTIONS = ("the red cube moved", "there is no change", "there is no change", "the red cube moved")


class Speaks:
    """An objective whose model says a given sentence for each pair."""

    ranks, speaks = False, True

    def __init__(self) -> None:
        generated = SimpleNamespace(ids=torch.arange(len(CAPTIONS)).view(-1, 1, 1))
        self.model = SimpleNamespace(generate=lambda state, options: generated, change_logits=lambda state: None)

    def eval(self) -> None: ...

    def forward(self, batch: PairBatch) -> dict[str, Any]:
        return {"loss": torch.tensor(1.0)}

    def encode(self, before: torch.Tensor, after: torch.Tensor) -> None: ...


def judged(kinds: list[int]) -> dict[str, float]:
    nothing = torch.zeros(len(kinds), 1, dtype=torch.long)
    batch = PairBatch(
        before=nothing,
        after=nothing,
        caption_ids=nothing,
        caption_mask=nothing.bool(),
        change_type=torch.tensor(kinds),
        scene_id=nothing[:, 0],
    )
    held_out = HeldOut(
        batches=[batch],
        references=[["the red cube moved"], ["no change"]] * 2,
        check=lambda captions: [True, True, False, False],
    )
    validator = Validator(held_out, decode=lambda ids: CAPTIONS[ids[0]], max_words=8)
    return validator.evaluate(Speaks())  # type: ignore[arg-type]


def test_facts_of_changes_are_told_apart() -> None:
    found = judged([5, 0, 5, 0])
    assert found["fact_accuracy"] == 0.5
    assert found["change_facts"] == 0.5
    assert found["said_accuracy"] == 0.5


@pytest.mark.parametrize(("kinds", "expected"), [([-1, 0, -1, -1], 1.0), ([-1, 0, 5, 0], 1 / 3)])
def test_pairs_of_unknown_kind_do_not_count_as_said_rightly(kinds: list[int], expected: float) -> None:
    assert judged(kinds)["said_accuracy"] == pytest.approx(expected)


def test_a_set_without_kinds_has_no_such_number() -> None:
    assert "said_accuracy" not in judged([-1] * 4)


def test_a_model_that_tells_nothing_apart_ranks_in_the_middle() -> None:
    right = torch.eye(5).bool()
    right[0, 1] = right[1, 0] = True  # equal captions
    assert _ranks(torch.ones(5, 5), right).tolist() == [2.5, 2.5, 3.0, 3.0, 3.0]
    assert _ranks(torch.eye(5), right).tolist() == [1.0] * 5
    assert _ranks(torch.tensor([[0.9, 0.8, 0.9]]), torch.tensor([[True, False, False]])).tolist() == [1.5]
