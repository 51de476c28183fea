"""IDC-PCL's losses on cases small enough to compute by hand."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from spotchange.models.pcl_heads import ClassHeads
from spotchange.training.objectives.pcl_losses import (
    HiddenWords,
    alignment_loss,
    cell_loss,
    class_contrast,
    class_losses,
    hide_cells,
    hide_words,
    word_loss,
)

BEGIN, END, PAD, MASK = 1, 2, 0, 4


def sentences(rows: int, words: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(8, 80, (rows, words + 4))
    ids[:, 0], ids[:, words - 1], ids[:, words:] = BEGIN, END, PAD
    return ids, torch.arange(words + 4).expand_as(ids) < words


def hide(ids: torch.Tensor, mask: torch.Tensor, share: float = 0.15) -> HiddenWords:
    return hide_words(ids, mask, share=share, vocabulary=80, mask_id=MASK, end_id=END)


def test_masking_rates() -> None:
    torch.manual_seed(0)
    ids, mask = sentences(4000)
    hidden = hide(ids, mask)
    words = hidden.chosen[:, 1:19]  # neither the begin nor the end token
    chosen = int(words.sum())
    assert chosen / (4000 * 18) == pytest.approx(0.15, abs=0.01)
    masked, kept = hidden.ids[:, 1:19] == MASK, hidden.ids[:, 1:19] == ids[:, 1:19]
    assert int((masked & words).sum()) / chosen == pytest.approx(0.8, abs=0.02)
    # Of the tenth that is swapped for any token, one in 80 stays by chance and one in 80 is [MASK].
    assert int((kept & words).sum()) / chosen == pytest.approx(0.1 + 0.1 / 80, abs=0.02)
    assert (kept | words).all()
    assert int((hidden.ids[:, 1:19] < 8).sum()) > int(masked.sum())  # special tokens are among the random ones


def test_the_end_becomes_a_mask_the_beginning_and_padding_never() -> None:
    torch.manual_seed(0)
    ids, mask = sentences(4000)
    hidden = hide(ids, mask)
    ends = hidden.chosen[:, 19]
    assert float(ends.float().mean()) == pytest.approx(0.15, abs=0.02)
    assert (hidden.ids[:, 19] == torch.where(ends, MASK, END)).all()
    assert not hidden.chosen[:, 0].any()
    assert not hidden.chosen[:, 20:].any()


def test_of_a_sentence_without_a_chosen_word_the_first_is_masked() -> None:
    ids, mask = sentences(50)
    hidden = hide(ids, mask, share=1e-9)
    assert hidden.chosen[:, 1].all()
    assert int(hidden.chosen.sum()) == 50
    assert (hidden.ids[:, 1] == MASK).all()
    empty = torch.tensor([[BEGIN, END, PAD]])
    assert not hide(empty, empty != PAD, share=1e-9).chosen.any()


def test_word_loss_counts_chosen_places_only() -> None:
    logits = torch.tensor([[[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [9.0, 0.0, 0.0]]])
    targets = torch.tensor([[0, 2, 1]])
    chosen = torch.tensor([[True, True, False]])
    results = word_loss(logits, targets, chosen)
    first = -math.log(math.exp(2) / (math.exp(2) + 2))
    second = -math.log(1 / (math.exp(3) + 2))
    assert float(results["loss"]) == pytest.approx((first + second) / 2, rel=1e-6)
    assert float(results["word_accuracy"]) == 0.5
    assert float(word_loss(logits, targets, torch.zeros_like(chosen))["loss"]) == 0.0


def test_hidden_cells_are_zero_in_one_image_and_the_rest_stays() -> None:
    torch.manual_seed(0)
    cells = torch.rand(400, 2, 49, 3) + 1
    shown = hide_cells(cells, share=0.15)
    zero = (shown.cells == 0).all(dim=-1)  # (pairs, images, cells)
    assert torch.equal(zero, shown.hidden)
    assert (zero.any(dim=2).sum(dim=1) == 1).all()  # one image of each pair
    assert float(zero.sum()) / (400 * 49) == pytest.approx(0.15, abs=0.01)
    assert 0.4 < float(zero[:, 0].any(dim=1).float().mean()) < 0.6
    assert torch.equal(shown.cells[~zero], cells[~zero])
    assert (hide_cells(cells, share=1e-9).hidden.sum(dim=(1, 2)) == 1).all()  # at least one


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_cell_loss_by_hand(temperature: float) -> None:
    """Two hidden cells and one that is shown: the other hidden cell counts by its feature, the shown by its guess."""
    guesses = torch.tensor([[0.0, 5.0], [1.0, 0.0]])
    truth = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    shown = torch.tensor([[0.0, -4.0]])
    loss = float(cell_loss(guesses, truth, shown, temperature=temperature)["loss"])
    own = math.exp(1 / temperature)
    first = -math.log(own / (own + 1 + math.exp(-1 / temperature)))
    second = -math.log(own / (own + 1 + 1))
    assert loss == pytest.approx((first + second) / 2, rel=1e-5)


def test_true_features_are_no_door_for_gradients_what_is_shown_is() -> None:
    guesses, truth, shown = (torch.randn(rows, 3, requires_grad=True) for rows in (2, 2, 4))
    cell_loss(guesses, truth, shown, temperature=1.0)["loss"].backward()
    assert truth.grad is None
    assert guesses.grad is not None
    assert shown.grad is not None


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_alignment_loss_by_hand(temperature: float) -> None:
    scores = torch.tensor([[0.5, 0.5, -0.5], [0.0, 1.0, 0.0]])
    results = alignment_loss(scores, temperature=temperature)
    rows = [[value / temperature for value in row] for row in scores.tolist()]
    expected = sum(-math.log(math.exp(row[0]) / sum(map(math.exp, row))) for row in rows) / 2
    assert float(results["loss"]) == pytest.approx(expected, rel=1e-5)
    assert float(results["fda_accuracy"]) == 0.5


def test_class_contrast_by_hand() -> None:
    """Two of a kind at right angles; a third of another kind at 45 degrees to both: its cosine exceeds the margin."""
    vectors = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    loss = class_contrast(vectors, torch.tensor([4, 4, 7]), margin=0.4)
    # Nine entries: three with itself (0), two of the same kind (1 - 0), four of different kinds.
    assert float(loss) == pytest.approx((2 * 1.0 + 4 * (0.5**0.5 - 0.4)) / 9, rel=1e-5)
    apart = class_contrast(vectors[:2], torch.tensor([1, 2]), margin=0.4)
    assert float(apart) == pytest.approx(0.0, abs=1e-6)


def test_classes_give_three_losses() -> None:
    torch.manual_seed(0)
    heads = ClassHeads(width=4, classes=3)
    alone, together = torch.randn(2, 2, 4), torch.randn(2, 2, 4)
    results = class_losses(heads, alone, together, torch.tensor([[0, 0], [1, 2]]), margin=0.4)
    parts = [float(results[name].detach()) for name in ("class_contrast", "classification", "matching")]
    assert float(results["loss"].detach()) == pytest.approx(sum(parts), rel=1e-6)
    named = F.cross_entropy(heads.classify(alone).flatten(0, 1), torch.tensor([0, 0, 1, 2]))
    matched = F.cross_entropy(heads.match(together.flatten(1)), torch.tensor([1, 0]))
    assert parts[1] == pytest.approx(float(named.detach()), rel=1e-6)
    assert parts[2] == pytest.approx(float(matched.detach()), rel=1e-6)
    best = heads.classify(alone).argmax(dim=-1)
    one_wrong = best.clone()
    one_wrong[0, 1] = (best[0, 1] + 1) % 3
    assert float(class_losses(heads, alone, together, one_wrong, margin=0.4)["class_accuracy"]) == 0.75
