"""BertAdam by hand, and what half precision does to it at the published rate."""

from __future__ import annotations

import pytest
import torch

from spotchange.training.optimizers import BertAdam


def test_two_steps_by_hand() -> None:
    weight = torch.nn.Parameter(torch.tensor([2.0]))
    optimizer = BertAdam([weight], lr=0.1, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.5)
    mean, square, expected = 0.0, 0.0, 2.0
    for gradient in (3.0, -1.0):
        weight.grad = torch.tensor([gradient])
        optimizer.step()
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        expected -= 0.1 * (mean / (square**0.5 + 1e-6) + 0.5 * expected)  # no correction of the first steps' bias
        assert float(weight.detach()) == pytest.approx(expected, rel=1e-6)


def moved(gradient: float, *, half: bool, second_beta: float, steps: int = 400) -> torch.Tensor:
    """How far weights of about 0.02 go from random gradients of one size at the published rate."""
    draw = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter((0.02 * torch.randn(2_000, generator=draw)).half().float())
    start = weight.detach().clone()
    optimizer = BertAdam([{"params": [weight], "half": half}], lr=1e-7, betas=(0.9, second_beta), eps=1e-6)
    for _ in range(steps):
        weight.grad = gradient * torch.randn(2_000, generator=draw)
        optimizer.step()
    return (weight.detach() - start).abs()


def test_in_half_precision_small_gradients_move_weights_further_or_not_at_all() -> None:
    narrow, wide = (moved(1e-4, half=half, second_beta=0.98) for half in (True, False))
    assert float(narrow.mean() / wide.mean()) > 10  # the squares underflow: a step is rate * mean / eps
    small = moved(1e-6, half=True, second_beta=0.999)
    assert float((small > 0).float().mean()) < 0.05  # steps below half a unit of the weight vanish
    assert float((moved(1e-6, half=False, second_beta=0.999) > 0).float().mean()) > 0.95


def test_half_precision_weights_are_half_precision_numbers_and_go_on_exactly() -> None:
    def stepped(weight: torch.nn.Parameter, optimizer: BertAdam, first: int, last: int) -> None:
        for step in range(first, last):
            weight.grad = torch.randn(50, generator=torch.Generator().manual_seed(step))
            optimizer.step()

    straight, broken = (torch.nn.Parameter(torch.linspace(-1, 1, 50)) for _ in range(2))
    whole, first, second = (BertAdam([{"params": [each], "half": True}], lr=1e-2)
                            for each in (straight, broken, broken))  # fmt: skip
    stepped(straight, whole, 0, 6)
    stepped(broken, first, 0, 3)
    second.load_state_dict(first.state_dict())
    stepped(broken, second, 3, 6)
    assert torch.equal(straight, broken)
    assert torch.equal(straight.half().float(), straight)
