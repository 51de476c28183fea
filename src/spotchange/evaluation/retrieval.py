"""Ranking captions for a pair and pairs for a caption: R@K, median and mean rank, both ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spotchange.errors import InputError, ModelError
from spotchange.evaluation.published_retrieval import check_similarities, published_retrieval
from spotchange.images import read_pair

if TYPE_CHECKING:
    from spotchange.answering import Captioner
    from spotchange.answering.captioner import Pair
    from spotchange.answering.runtimes.interface import RankingRuntime
    from spotchange.data import Row

CUTOFFS = (1, 5, 10, 20, 50)
_CHUNK = 256
_NAMED = 8  # unknown words in a note

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
    check_similarities(similarity, captions)
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
    return _ranking_runtime(captioner) is not None


def retrieval(captioner: Captioner, rows: Sequence[Row], *, batch_size: int = 16) -> dict[str, dict[str, float]]:
    """Retrieval scores of a model on the rows where something changed, by our rule and by the published one.

    Pairs without a change are left out: the few sentences that say so fit all of them. So are pairs without a word.
    """
    changed = [row for row in rows if row.change_type != "none" and any(row.captions)]
    if not changed:
        raise InputError("there is no pair with a change to retrieve")
    column: dict[str, int] = {}
    captions = [[column.setdefault(text, len(column)) for text in row.captions] for row in changed]
    pairs = embed_pairs(captioner, [(row.before_path, row.after_path) for row in changed], batch_size=batch_size)
    similarity = pairs @ embed_texts(captioner, list(column)).T
    return retrieval_scores(similarity, captions) | published_retrieval(similarity, captions)


def rank_captions(captioner: Captioner, pair: Pair, texts: Sequence[str]) -> list[tuple[str, float]]:
    """Texts with their similarity to a pair of images, the best first."""
    similarity = embed_texts(captioner, texts) @ embed_pairs(captioner, [pair])[0]
    return [(texts[place], float(similarity[place])) for place in np.argsort(-similarity, kind="stable")]


def rank_pairs(captioner: Captioner, text: str, pairs: Sequence[Pair]) -> list[tuple[int, float]]:
    """Places of pairs in the list with their similarity to a text, the best first."""
    similarity = embed_pairs(captioner, pairs) @ embed_texts(captioner, [text])[0]
    return [(int(place), float(similarity[place])) for place in np.argsort(-similarity, kind="stable")]


def reading_notes(captioner: Captioner, texts: Sequence[str]) -> list[str]:
    """What the model cannot read of texts; a similarity does not tell."""
    unknown, cut = _needed(captioner).unread(texts)
    notes = []
    if unknown:
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        notes.append(f"words that {captioner.name} does not know: {', '.join(unknown[:_NAMED])}{more}")
    if cut:
        notes.append(f"{cut} of {len(texts)} sentences are too long for {captioner.name} and are cut")
    return notes


def embed_pairs(captioner: Captioner, pairs: Sequence[Pair], *, batch_size: int = 16) -> NDArray[np.float32]:
    """(pairs, width), unit length; images may be paths, bytes, PIL images or arrays."""
    runtime = _needed(captioner)
    found = []
    for batch in _batches(pairs, batch_size):
        images = [read_pair(before, after) for before, after in batch]
        found.append(runtime.embed_pairs([each[0] for each in images], [each[1] for each in images]))
    return np.concatenate(found)


def embed_texts(captioner: Captioner, texts: Sequence[str], *, batch_size: int = _CHUNK) -> NDArray[np.float32]:
    """(texts, width), unit length; what is too long for the model is cut."""
    runtime = _needed(captioner)
    return np.concatenate([runtime.embed_texts(batch) for batch in _batches(texts, batch_size)])


def _ranking_runtime(captioner: Captioner) -> RankingRuntime | None:
    """The model's runtime if it embeds pairs and texts in one space."""
    runtime: RankingRuntime | None = getattr(captioner.answerer, "runtime", None)
    return runtime if getattr(runtime, "can_rank", False) else None


def _needed(captioner: Captioner) -> RankingRuntime:
    runtime = _ranking_runtime(captioner)
    if runtime is None:
        raise ModelError(f"{captioner.name} cannot rank: it has no text encoder", hint="use an adapted model")
    return runtime


def _batches(values: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
