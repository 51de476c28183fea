"""The most similar captions of a set by TF-IDF, with posting lists: no matrix, any vocabulary."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spotchange.data.negatives.word_kinds import words_of

_FIRST_LOOK = 64  # candidates ordered at first; nearly always enough


class SimilarCaptions:
    """Ranks the captions of a set by cosine similarity of their TF-IDF vectors to a given one."""

    def __init__(self, captions: Sequence[str]) -> None:
        self.captions = list(dict.fromkeys(captions))
        counts = [Counter(words_of(caption)) for caption in self.captions]
        documents: Counter[str] = Counter(word for count in counts for word in count)
        total = len(self.captions)
        # Smoothed, so that a word of every caption still weighs a little.
        self._weight = {word: math.log((1 + total) / (1 + seen)) + 1.0 for word, seen in documents.items()}
        places: dict[str, list[int]] = defaultdict(list)
        values: dict[str, list[float]] = defaultdict(list)
        for number, count in enumerate(counts):
            vector = self._vector(count)
            for word, value in vector.items():
                places[word].append(number)
                values[word].append(value)
        self._postings: dict[str, tuple[Any, Any]] = {
            word: (np.array(places[word]), np.array(values[word], dtype=np.float32)) for word in places
        }

    def similarities(self, caption: str) -> Any:
        """float32 (captions,): cosine with every caption of the set."""
        scores = np.zeros(len(self.captions), dtype=np.float32)
        for word, value in self._vector(Counter(words_of(caption))).items():
            if word in self._postings:
                numbers, values = self._postings[word]
                scores[numbers] += np.float32(value) * values
        return scores

    def ranked(self, caption: str) -> Iterator[str]:
        """Captions of the set, the most similar first, without the caption itself."""
        scores = self.similarities(caption)
        count = min(_FIRST_LOOK, len(scores))
        best = np.argpartition(-scores, count - 1)[:count]
        best = best[np.lexsort((best, -scores[best]))]
        yield from (self.captions[number] for number in best if self.captions[number] != caption)
        if count < len(scores):
            order = np.lexsort((np.arange(len(scores)), -scores))
            seen = set(best.tolist())
            yield from (
                self.captions[number]
                for number in order.tolist()
                if number not in seen and self.captions[number] != caption
            )

    def _vector(self, count: Counter[str]) -> dict[str, float]:
        weights = {word: number * self._weight.get(word, 1.0) for word, number in count.items()}
        length = math.sqrt(sum(value * value for value in weights.values())) or 1.0
        return {word: value / length for word, value in weights.items()}
