"""The linear probe finds what is linearly there, and no more."""

from __future__ import annotations

import torch

from spotchange.evaluation.linear_probe import majority_accuracy, probe_accuracy


def test_a_linear_rule_is_found_and_noise_is_not() -> None:
    draw = torch.Generator().manual_seed(1)
    features = torch.randn(600, 10, generator=draw, dtype=torch.float64)
    rule = torch.randn(10, 3, generator=draw, dtype=torch.float64)
    labels = (features @ rule).argmax(1)
    fitted, held_out = slice(0, 400), slice(400, None)
    found = probe_accuracy(features[fitted], labels[fitted], features[held_out], labels[held_out], classes=3)
    assert found > 0.85
    noise = torch.randint(0, 3, (600,), generator=draw)
    chance = probe_accuracy(features[fitted], noise[fitted], features[held_out], noise[held_out], classes=3)
    assert chance < 0.5


def test_majority_is_the_commonest_class() -> None:
    assert majority_accuracy(torch.tensor([1, 1, 0]), torch.tensor([1, 0, 1, 1])) == 0.75
