"""The losses of IDC-PCL's pre-training tasks.

MLM: masked words of the caption. MVCL: which of the batch's hidden cells was it that is hidden here? FDA: the true
sentence among hard negatives, each read together with the images. FGVC: same class close, the class itself, same class
or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import VisualState
from spotchange.models.pcl_heads import ClassHeads
from spotchange.training import distributed
from spotchange.training.objectives.base import in_full_precision


def aligned_scores(model: IdcPcl, state: VisualState, ids: Tensor, mask: Tensor) -> Tensor:
    """(N, sentences): cosine of the images' summary and each sentence's [CLS], both after reading that sentence.

    `ids` and `mask` are (N, sentences, words).
    """
    pairs, sentences = ids.shape[:2]
    repeated = VisualState(
        tokens=state.tokens.repeat_interleave(sentences, dim=0), grid=state.grid, features=state.features, extras={}
    )
    hidden = model.read_together(repeated, ids.flatten(0, 1), mask.flatten(0, 1))
    images = model.image_outputs(hidden[:, : state.tokens.shape[1]]).mean(dim=1)
    sentence = hidden[:, state.tokens.shape[1]]  # [CLS] follows the images
    return F.cosine_similarity(images.float(), sentence.float(), dim=-1).view(pairs, sentences)


def alignment_loss(scores: Tensor, *, temperature: float) -> dict[str, Tensor]:
    """Cross-entropy of the first sentence of `scores` (N, sentences), the true one, and how often it is the best."""
    truth = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    return {
        "loss": F.cross_entropy(scores / temperature, truth),
        "fda_accuracy": (scores.argmax(dim=1) == 0).float().mean(),
    }


def class_losses(
    heads: ClassHeads, alone: Tensor, together: Tensor, class_ids: Tensor, *, margin: float
) -> dict[str, Tensor]:
    """Losses from images read alone (N, 2, width) and as pairs (N, 2, width), with classes (N, 2)."""
    named = heads.classify(alone).float()
    same = (class_ids[:, 0] == class_ids[:, 1]).long()
    losses = {
        "class_contrast": class_contrast(alone.flatten(0, 1), class_ids.flatten(), margin=margin),
        "classification": F.cross_entropy(named.flatten(0, 1), class_ids.flatten()),
        "matching": F.cross_entropy(heads.match(together.flatten(1)).float(), same),
    }
    right = (named.argmax(dim=-1) == class_ids).float().mean()
    return {"loss": torch.stack(list(losses.values())).sum(), **losses, "class_accuracy": right}


def class_contrast(vectors: Tensor, class_ids: Tensor, *, margin: float) -> Tensor:
    """Mean over all pairs of images, each with itself too: 1 - cosine in one class, else cosine above `margin`."""
    unit = F.normalize(vectors.float(), dim=-1)
    cosine = unit @ unit.T
    friends = class_ids[:, None] == class_ids[None, :]
    return torch.where(friends, 1 - cosine, (cosine - margin).clamp(min=0)).mean()


@dataclass(frozen=True, kw_only=True)
class HiddenCells:
    """Grid features with some cells of one image of each pair set to zero."""

    cells: Tensor  # (N, images, cells, channels)
    hidden: Tensor  # bool (N, images, cells): which


def hide_cells(cells: Tensor, *, share: float, generator: torch.Generator | None = None) -> HiddenCells:
    """Hide each cell of a random image of every pair with chance `share`, and at least one."""
    pairs, images, count = cells.shape[:3]
    image = torch.randint(images, (pairs,), device=cells.device, generator=generator)
    chance = torch.rand(pairs, count, device=cells.device, generator=generator)
    drawn = (chance < share) | (chance == chance.amin(dim=1, keepdim=True))
    here = torch.arange(images, device=cells.device) == image[:, None]
    hidden = here[:, :, None] & drawn[:, None]
    return HiddenCells(cells=cells.masked_fill(hidden[..., None], 0), hidden=hidden)


def cell_scores(guesses: Tensor, truth: Tensor, shown: Tensor) -> Tensor:
    """Cosines of guesses at hidden cells (H, channels), first with the true features of these cells (H, channels),
    then with the guesses at cells that are shown (S, channels): (H, H + S)."""
    unit = F.normalize(guesses.float(), dim=-1)
    against = torch.cat([F.normalize(truth.detach().float(), dim=-1), F.normalize(shown.float(), dim=-1)])
    with in_full_precision(unit):
        return unit @ against.T


def cell_loss(guesses: Tensor, truth: Tensor, shown: Tensor, *, temperature: float) -> dict[str, Tensor]:
    """Cross-entropy of every hidden cell's own feature among all columns of `cell_scores`, and its mean cosine.

    Other hidden cells are told apart by their features; cells that are shown by what the model itself makes of them,
    so that guesses of hidden cells keep away from the image's other contents. Gradients flow through both.
    """
    scores = cell_scores(guesses, truth, shown)
    own = torch.arange(len(guesses), device=guesses.device)
    each = F.cross_entropy(scores / temperature, own, reduction="none")
    number = torch.tensor(len(guesses), device=guesses.device)
    return {
        "loss": distributed.global_mean(each.sum(), number),
        "own_similarity": scores[own, own].mean(),
    }


_AS_MASK, _AS_RANDOM = 0.8, 0.1  # BERT's shares; the rest is left as it is, yet predicted


@dataclass(frozen=True, kw_only=True)
class HiddenWords:
    """A sentence with words hidden."""

    ids: Tensor  # int64 (N, words): some replaced by [MASK] or by random words
    chosen: Tensor  # bool (N, words): what is to be predicted


def hide_words(
    ids: Tensor,
    mask: Tensor,
    *,
    share: float,
    vocabulary: int,
    mask_id: int,
    end_id: int,
    generator: torch.Generator | None = None,
) -> HiddenWords:
    """Choose each word with chance `share`; of these 80 % become [MASK], 10 % any token, 10 % stay.

    A sentence of which no word was chosen has its first one masked. The begin token is never chosen. The end token is,
    with the same chance, and always becomes [MASK]: or decoding by [MASK] would never end.
    """
    end = mask & (ids == end_id)
    word = mask & ~end
    word[:, 0] = False
    chance = torch.rand(2, *ids.shape, device=ids.device, generator=generator)
    drawn = word & (chance[0] < share)
    first = torch.zeros_like(word)
    first[:, 1] = word[:, 1] & ~drawn.any(dim=1)
    masked = first | (drawn & (chance[1] < _AS_MASK)) | (end & (chance[0] < share))
    swapped = drawn & ~masked & (chance[1] < _AS_MASK + _AS_RANDOM)
    other = torch.randint(vocabulary, ids.shape, device=ids.device, generator=generator)
    hidden = torch.where(swapped, other, ids).masked_fill(masked, mask_id)
    return HiddenWords(ids=hidden, chosen=drawn | masked)


def word_loss(logits: Tensor, targets: Tensor, chosen: Tensor, *, summed: bool = False) -> dict[str, Tensor]:
    """Cross-entropy, its mean or its sum, and accuracy where `chosen`, over (N, words, vocabulary)."""
    logits = logits.float()
    each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
    right = (logits.argmax(dim=-1) == targets) & chosen
    total, number = (each * chosen).sum(), chosen.sum()
    return {
        "loss": distributed.global_sum(total) if summed else distributed.global_mean(total, number),
        "word_accuracy": right.sum() / number.clamp(min=1),
    }
