"""IDC-PCL's losses on cases small enough to compute by hand."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from spotchange.training.objectives.fda import alignment_loss
from spotchange.training.objectives.fgvc import ClassHeads, class_contrast
from spotchange.training.objectives.mlm import hide_words, word_loss
from spotchange.training.objectives.mvcl import HiddenCells, cell_loss, hide_cells

BEGIN, END, PAD = 1, 2, 0


def sentences(rows: int, words: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(8, 80, (rows, words + 4))
    ids[:, 0], ids[:, words - 1], ids[:, words:] = BEGIN, END, PAD
    return ids, torch.arange(words + 4).expand_as(ids) < words


def test_masking_rates() -> None:
    torch.manual_seed(0)
    ids, mask = sentences(4000)
    hidden = hide_words(ids, mask, share=0.15, vocabulary=80)
    words = 4000 * 19  # the begin token is no candidate
    chosen = int(hidden.chosen.sum())
    assert chosen / words == pytest.approx(0.15, abs=0.01)
    assert int(hidden.masked.sum()) / chosen == pytest.approx(0.8, abs=0.02)
    # Of the tenth that is swapped for a random word, one in 80 stays by chance.
    assert int((hidden.ids != ids).sum()) / chosen == pytest.approx(0.1 * 79 / 80, abs=0.02)
    assert not (hidden.masked & (hidden.ids != ids)).any()
    assert not ((hidden.ids != ids) & ~hidden.chosen).any()


def test_the_end_can_be_masked_the_beginning_and_padding_never() -> None:
    torch.manual_seed(0)
    ids, mask = sentences(500)
    chosen = hide_words(ids, mask, share=0.15, vocabulary=80).chosen
    assert chosen[:, 19].any()
    assert not chosen[:, 0].any()
    assert not chosen[:, 20:].any()


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


def test_hidden_cells_are_zero_in_one_picture_and_the_rest_stays() -> None:
    torch.manual_seed(0)
    cells = torch.rand(200, 2, 49, 3) + 1
    hidden = hide_cells(cells, share=0.15)
    zero = (hidden.cells == 0).all(dim=-1)  # (pairs, pictures, cells)
    assert (zero.sum(dim=(1, 2)) == 7).all()  # 15 % of 49
    assert (zero.any(dim=2).sum(dim=1) == 1).all()  # one picture of each pair
    assert set(hidden.picture.tolist()) == {0, 1}
    assert torch.equal(hidden.cells[~zero], cells[~zero])
    places = zero[torch.arange(200), hidden.picture].nonzero()[:, 1].view(200, 7)
    assert torch.equal(places, hidden.places.sort(dim=1).values)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_cell_loss_by_hand(temperature: float) -> None:
    """One pair, two pictures of two cells; cell 1 of picture 0 is hidden, the three others are the negatives."""
    cells = torch.tensor([[[[2.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [0.0, -1.0]]]])
    hidden = HiddenCells(cells=cells, picture=torch.tensor([0]), places=torch.tensor([[1]]))
    guess = torch.tensor([[[0.0, 5.0]]])  # the direction of the hidden cell itself
    loss = float(cell_loss(guess, cells, hidden, temperature=temperature)["loss"])
    positive = math.exp(1 / temperature)
    negatives = math.exp(0) + math.exp(0) + math.exp(-1 / temperature)
    assert loss == pytest.approx(-math.log(positive / (positive + negatives)), rel=1e-5)


def test_hidden_cells_of_other_pairs_are_no_negatives() -> None:
    cells = torch.randn(2, 2, 4, 3)
    hidden = HiddenCells(cells=cells, picture=torch.tensor([0, 1]), places=torch.tensor([[1], [2]]))
    guesses = torch.randn(2, 1, 3)
    before = cell_loss(guesses, cells, hidden, temperature=1.0)["loss"]
    moved = cells.clone()
    moved[1, 1, 2] = torch.randn(3)  # hidden: the negative of nobody, the positive of the second guess
    after = cell_loss(guesses[:1], moved[:1], HiddenCells(cells=moved, picture=hidden.picture[:1],
                      places=hidden.places[:1]), temperature=1.0)  # fmt: skip
    unit, guess = F.normalize(cells, dim=-1), F.normalize(guesses, dim=-1)
    own = [float(guess[0, 0] @ unit[0, 0, 1]), float(guess[1, 0] @ unit[1, 1, 2])]
    shown = [unit[0, 0, [0, 2, 3]], unit[0, 1], unit[1, 0], unit[1, 1, [0, 1, 3]]]
    others = torch.cat(shown)  # 14 of the 16 cells
    expected = []
    for row, positive in enumerate(own):
        negative = (others @ guess[row, 0]).exp().sum()
        expected.append(float(-math.log(math.exp(positive) / (math.exp(positive) + float(negative)))))
    assert float(before) == pytest.approx(sum(expected) / 2, rel=1e-5)
    assert torch.isfinite(after["loss"])


def test_the_true_cells_are_no_door_for_gradients() -> None:
    cells = torch.randn(1, 2, 4, 3, requires_grad=True)
    guesses = torch.randn(1, 1, 3, requires_grad=True)
    hidden = HiddenCells(cells=cells, picture=torch.tensor([0]), places=torch.tensor([[1]]))
    cell_loss(guesses, cells, hidden, temperature=1.0)["loss"].backward()
    assert cells.grad is None
    assert guesses.grad is not None


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_alignment_loss_by_hand(temperature: float) -> None:
    scores = torch.tensor([[0.5, 0.5, -0.5], [0.0, 1.0, 0.0]])
    results = alignment_loss(scores, temperature=temperature)
    rows = [[value / temperature for value in row] for row in scores.tolist()]
    expected = sum(-math.log(math.exp(row[0]) / sum(map(math.exp, row))) for row in rows) / 2
    assert float(results["loss"]) == pytest.approx(expected, rel=1e-5)
    assert float(results["fda_accuracy"]) == 0.5


def test_class_contrast_by_hand() -> None:
    """Two of a kind at right angles to a third, which has no friend and does not count."""
    vectors = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    loss = class_contrast(vectors, torch.tensor([4, 4, 7]), temperature=0.5)
    near, far = math.exp(1 / 0.5), math.exp(0)
    assert float(loss) == pytest.approx(-math.log(near / (near + far)), rel=1e-5)
    alone = class_contrast(vectors, torch.tensor([1, 2, 3]), temperature=0.5)
    assert float(alone) == 0.0


def test_classes_give_three_losses() -> None:
    torch.manual_seed(0)
    heads = ClassHeads(width=4, classes=3)
    alone, together = torch.randn(2, 2, 4), torch.randn(2, 2, 4)
    results = heads(alone, together, torch.tensor([[0, 0], [1, 2]]), temperature=0.1)
    parts = [float(results[name].detach()) for name in ("class_contrast", "classification", "matching")]
    assert float(results["loss"].detach()) == pytest.approx(sum(parts), rel=1e-6)
    named = F.cross_entropy(heads.classify(alone).flatten(0, 1), torch.tensor([0, 0, 1, 2]))
    matched = F.cross_entropy(heads.match(together.flatten(1)), torch.tensor([1, 0]))
    assert parts[1] == pytest.approx(float(named.detach()), rel=1e-6)
    assert parts[2] == pytest.approx(float(matched.detach()), rel=1e-6)
