"""Linear layers on a few rows, which take another way on CPUs."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from spotchange.models.layers import Linear, linear


@pytest.mark.parametrize("shape", [(1, 24), (1, 1, 24), (2, 24), (3, 1, 24), (8, 24), (9, 24), (2, 7, 24), (0, 24)])
@pytest.mark.parametrize("biased", [True, False])
def test_few_rows_give_the_same_products(shape: tuple[int, ...], biased: bool) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(shape, requires_grad=True), torch.randn(40, 24, requires_grad=True)
    bias = torch.randn(40) if biased else None
    expected, found = F.linear(x, weight, bias), linear(x, weight, bias)
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    wanted = torch.autograd.grad(expected.square().sum(), (x, weight))
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), (x, weight)), wanted, atol=1e-4, rtol=1e-5)


def test_layers_keep_torchs_names_and_start() -> None:
    torch.manual_seed(0)
    ours = Linear(6, 4)
    torch.manual_seed(0)
    theirs = torch.nn.Linear(6, 4)
    assert {name: value.tolist() for name, value in ours.state_dict().items()} == {
        name: value.tolist() for name, value in theirs.state_dict().items()
    }
