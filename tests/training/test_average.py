"""The moving average follows the weights, steps in for them and comes back from a checkpoint."""

from __future__ import annotations

import torch
from torch import nn

from spotchange.training.optimizers import WeightAverage


def test_average_is_the_running_blend_and_swaps_in_and_out() -> None:
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 0.0)
    average = WeightAverage(module, decay=0.5)
    nn.init.constant_(module.weight, 1.0)
    average.update()  # the first update remembers little: (1 + 1) / (10 + 1)
    expected = 1.0 - 2 / 11
    assert torch.allclose(average.shadow["weight"], torch.tensor([[expected]]))
    with average.applied():
        assert torch.allclose(module.weight, torch.tensor([[expected]]))
    assert module.weight.item() == 1.0


def test_state_comes_back() -> None:
    module = nn.Linear(3, 3)
    average = WeightAverage(module, decay=0.9)
    nn.init.ones_(module.weight)
    average.update()
    other = WeightAverage(nn.Linear(3, 3), decay=0.9)
    other.load_state_dict(average.state_dict())
    assert other.updates == 1
    assert torch.equal(other.shadow["weight"], average.shadow["weight"])
