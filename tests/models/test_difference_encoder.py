"""IDC-PCL's difference encoder: what its input layer does to features that are mostly alike."""

from __future__ import annotations

import torch
from torch import Tensor

from spotchange.models.difference_encoder import StandardCells
from spotchange.models.weights.initialise import initialise


def like_a_resnet(pairs: int = 64) -> Tensor:
    """Features whose larger part is the same for all cells of all images, with channels of very different sizes."""
    draw = torch.Generator().manual_seed(3)
    sizes = torch.logspace(-1, 1, 32)
    return sizes * (5 + torch.randn(pairs, 2, 6, 32, generator=draw))


def test_channels_have_mean_zero_and_deviation_one() -> None:
    standard = StandardCells(32)
    rows = standard(like_a_resnet()).flatten(0, 2)
    torch.testing.assert_close(rows.mean(dim=0), torch.zeros(32), atol=1e-4, rtol=0)
    torch.testing.assert_close(rows.std(dim=0), torch.ones(32), atol=0.02, rtol=0)


def test_outside_training_what_was_seen_in_training_counts() -> None:
    standard, cells = StandardCells(32), like_a_resnet()
    for _ in range(100):
        expected = standard(cells)
    standard.eval()
    one_pair = standard(cells[:1])  # a pair alone reads as it read among the others
    torch.testing.assert_close(one_pair, expected[:1], atol=5e-3, rtol=0)
    before = standard.mean.clone()
    standard(10 * cells)
    assert torch.equal(standard.mean, before)


def test_half_precision_comes_back_as_it_went_in() -> None:
    assert StandardCells(32)(like_a_resnet().bfloat16()).dtype == torch.bfloat16


def test_any_width_keeps_the_deviation_of_a_signal() -> None:
    for inputs in (64, 768, 2048):
        torch.manual_seed(0)
        layer = torch.nn.Linear(inputs, 512)
        initialise(layer, any_width=True)
        deviation = layer(torch.randn(256, inputs)).std()
        torch.testing.assert_close(deviation, torch.tensor(0.02 * 768**0.5), atol=0.02, rtol=0)
