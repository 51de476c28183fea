"""Ranking captions for a pair and pairs for a caption: R@K, median and mean rank, both ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spotchange.errors import InputError, ModelError

if TYPE_CHECKING:
    from spotchange.answering import Captioner
    from spotchange.answering.captioner import Pair
    from spotchange.data import Row

CUTOFFS = (1, 5, 10, 20, 50)
_CHUNK = 256

Similarity = NDArray[np.floating[Any]]


def retrieval_scores(similarity: Similarity, captions: Sequence[Sequence[int]]) -> dict[str, dict[str, float]]:
    """Score a similarity matrix in both directions.

    All captions of a pair are right for it, and a caption that several pairs share is right for each of them.
    A query's rank is that of its best right answer; wrong answers that tie with it count half, so that a model
    which cannot tell anything apart gets the middle rank and not the first.

    Args:
        similarity: (pairs, distinct texts).
        captions: for each pair, the columns of its captions; repeated ones are repeated queries.

    Returns:
        Scores under "pair to text" and "text to pair": R@1 and so on, "median rank", "mean rank".
    """
    if similarity.shape[0] != len(captions) or not len(captions):
        raise InputError(f"{similarity.shape[0]} rows of similarities against {len(captions)} pairs")
    pairs_of_text: dict[int, list[int]] = {}
    for pair, columns in enumerate(captions):
        for column in set(columns):
            pairs_of_text.setdefault(column, []).append(pair)
    to_text = np.array([_rank(row, sorted(set(columns))) for row, columns in zip(similarity, captions, strict=True)])
    ranks = {column: _rank(similarity[:, column], pairs) for column, pairs in pairs_of_text.items()}
    to_pair = np.array([ranks[column] for columns in captions for column in columns])
    return {"pair to text": _summary(to_text), "text to pair": _summary(to_pair)}


def _rank(similarities: Similarity, right: list[int]) -> float:
    best = similarities[right].max()
    # Counting everything and taking off the right ones spares copying all the wrong ones.
    ahead = (similarities > best).sum()  # no right one is ahead of the best right one
    ties = (similarities == best).sum() - (similarities[right] == best).sum()
    return float(1 + ahead + ties / 2)


def _summary(ranks: NDArray[np.float64]) -> dict[str, float]:
    scores = {f"R@{cutoff}": float((ranks <= cutoff).mean()) for cutoff in CUTOFFS}
    return scores | {"median rank": float(np.median(ranks)), "mean rank": float(ranks.mean())}


def can_retrieve(captioner: Captioner) -> bool:
    """Whether the model has both embeddings."""
    model = captioner.model
    has_both = hasattr(model, "embed_pair") and hasattr(model, "embed_text")
    return has_both and getattr(model, "text_encoder", model) is not None


def retrieval(captioner: Captioner, rows: Sequence[Row], *, batch_size: int = 16) -> dict[str, dict[str, float]]:
    """Retrieval scores of a model on the rows where something changed.

    Pairs without a change are left out: the few sentences that say so fit all of them.
    """
    changed = [row for row in rows if row.change_type != "none"]
    if not changed:
        raise InputError("there is no pair with a change to retrieve")
    column: dict[str, int] = {}
    captions = [[column.setdefault(text, len(column)) for text in row.captions] for row in changed]
    pairs = embed_pairs(captioner, [(row.before_path, row.after_path) for row in changed], batch_size=batch_size)
    similarity = pairs @ embed_texts(captioner, list(column)).T
    return retrieval_scores(similarity, captions)


def rank_captions(captioner: Captioner, pair: Pair, texts: Sequence[str]) -> list[tuple[str, float]]:
    """Texts with their similarity to a pair of pictures, the best first."""
    similarity = embed_texts(captioner, texts) @ embed_pairs(captioner, [pair])[0]
    return [(texts[place], float(similarity[place])) for place in np.argsort(-similarity, kind="stable")]


def rank_pairs(captioner: Captioner, text: str, pairs: Sequence[Pair]) -> list[tuple[int, float]]:
    """Places of pairs in the list with their similarity to a text, the best first."""
    similarity = embed_pairs(captioner, pairs) @ embed_texts(captioner, [text])[0]
    return [(int(place), float(similarity[place])) for place in np.argsort(-similarity, kind="stable")]


def embed_pairs(captioner: Captioner, pairs: Sequence[Pair], *, batch_size: int = 16) -> NDArray[np.float32]:
    """(pairs, width), unit length; pictures may be paths, bytes, PIL images or arrays."""
    import torch

    from spotchange.images import read_pair

    model = _ranking_model(captioner)
    found = []
    with torch.inference_mode():
        for batch in _batches(pairs, batch_size):
            pictures = [read_pair(before, after) for before, after in batch]
            before, after = (captioner.loaded.preprocess(list(side)) for side in zip(*pictures, strict=True))
            found.append(model.embed_pair(before, after).float().cpu().numpy())
    return np.concatenate(found)


def embed_texts(captioner: Captioner, texts: Sequence[str], *, batch_size: int = _CHUNK) -> NDArray[np.float32]:
    """(texts, width), unit length; what is too long for the model is cut."""
    import torch

    model = _ranking_model(captioner)
    loaded = captioner.loaded
    words, context = loaded.settings.vocabulary, loaded.settings.text.context
    device = next(model.parameters()).device
    found = []
    with torch.inference_mode():
        for batch in _batches(texts, batch_size):
            encoded = [loaded.tokenizer.encode(text, add_special_tokens=False).ids[: context - 2] for text in batch]
            lines = [[words.begin, *ids, words.end] for ids in encoded]
            width = max(map(len, lines))
            ids = torch.tensor([line + [words.pad] * (width - len(line)) for line in lines], device=device)
            lengths = torch.tensor([len(line) for line in lines], device=device)
            mask = torch.arange(width, device=device)[None] < lengths[:, None]
            found.append(model.embed_text(ids, mask).float().cpu().numpy())
    return np.concatenate(found)


def _ranking_model(captioner: Captioner) -> Any:
    if not can_retrieve(captioner):
        raise ModelError(f"{captioner.name} cannot rank: it has no text encoder", hint="use an adapted model")
    return captioner.model


def _batches(values: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
