"""Local matching: a shift within its reach is no difference, another thing is."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from spotchange.models.vision.local_matching import LocalMatching  # noqa: E402


def rest(fine: torch.Tensor, radius: int) -> torch.Tensor:
    """What the matching leaves of every fine cell: the part of its projection's input that is `mine - match`."""
    module = LocalMatching(channels=8, width=16, radius=radius)
    module.sharpness.data.fill_(5.0)
    seen: list[torch.Tensor] = []
    module.project.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    module(fine)
    return seen[0].unflatten(0, (2, -1))[..., : 4 * 8].abs().mean(dim=-1)  # (2, pairs, cells)


def test_a_shift_within_reach_leaves_nothing_and_a_new_thing_something() -> None:
    scene = torch.randn(1, 8, 12, 12, generator=torch.Generator().manual_seed(1))
    shifted = torch.roll(scene, (1, -2), dims=(2, 3))
    inside = torch.zeros(6, 6, dtype=torch.bool)
    inside[2:4, 2:4] = True
    still = rest(torch.stack([scene, shifted]), radius=2)[:, 0].unflatten(1, (6, 6))
    assert still[:, inside].max() < 0.05
    assert rest(torch.stack([scene, shifted]), radius=1)[:, 0].unflatten(1, (6, 6))[:, inside].mean() > 0.3
    changed = shifted.clone()
    changed[:, :, 5:7, 5:7] = torch.randn(1, 8, 2, 2, generator=torch.Generator().manual_seed(2))
    assert rest(torch.stack([scene, changed]), radius=2)[1, 0].unflatten(0, (6, 6))[inside].mean() > 0.1


def test_gradients_reach_the_grid() -> None:
    fine = torch.randn(2, 2, 8, 4, 4, requires_grad=True)
    LocalMatching(channels=8, width=16, radius=1)(fine).square().mean().backward()
    assert fine.grad is not None
    assert fine.grad.abs().min() > 0
