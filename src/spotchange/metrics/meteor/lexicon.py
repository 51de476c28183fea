"""Sentences, words and phrases as numbers: what METEOR's compiled aligner reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotchange.metrics.meteor.data import MeteorData
from spotchange.metrics.meteor.normalizer import normalize

MAX_PHRASE_WORDS = 7

Ints = NDArray[np.int64]


class Lexicon:
    """Distinct sentences with everything the aligner must know about their words and phrases.

    Args:
        data: METEOR's word lists.
        sentences: tokens joined by blanks; repeated ones count once.
    """

    def __init__(self, data: MeteorData, sentences: Iterable[str]) -> None:
        self._data = data
        self.number = {sentence: number for number, sentence in enumerate(dict.fromkeys(sentences))}
        split = [normalize(sentence, data.prefixes) for sentence in self.number]
        vocabulary: dict[str, int] = {}
        self.words = np.array([vocabulary.setdefault(w, len(vocabulary)) for s in split for w in s], dtype=np.int64)
        self.sentence_start = offsets(len(words) for words in split)  # (sentences + 1,)
        self.is_function = np.array([word in data.function_words for word in vocabulary], dtype=np.int64)
        self.phrases, links, link_start = self._link_phrases(split)  # (words, MAX_PHRASE_WORDS)
        meanings = [sorted(data.meanings(word)) for word in vocabulary]
        stems: dict[str, int] = {}
        self.relations = (
            np.array([stems.setdefault(data.stem(word), len(stems)) for word in vocabulary], dtype=np.int64),
            np.array([number for numbers in meanings for number in numbers], dtype=np.int64),
            offsets(len(numbers) for numbers in meanings),
            links,
            link_start,
        )

    def _link_phrases(self, split: list[tuple[str, ...]]) -> tuple[Ints, Ints, Ints]:
        """Number the phrases that have a paraphrase here; return them at each word, and whose paraphrase is which."""
        texts = [_phrases(words) for words in split]
        known = {phrase for rows in texts for row in rows for phrase in row}
        number: dict[bytes, int] = {}
        targets: dict[int, list[int]] = {}
        for phrase, paraphrase in self._data.paraphrases(known):
            source = number.setdefault(phrase, len(number))
            targets.setdefault(source, []).append(number.setdefault(paraphrase, len(number)))
        numbered = np.full((len(self.words), MAX_PHRASE_WORDS), -1, dtype=np.int64)
        for place, row in enumerate(row for rows in texts for row in rows):
            for words, phrase in enumerate(row):
                if phrase in number:
                    numbered[place, words] = number[phrase]
        lists = [targets.get(source, []) for source in range(len(number))]
        links = np.array([target for one in lists for target in one], dtype=np.int64)
        return numbered, links, offsets(len(one) for one in lists)


def _phrases(words: tuple[str, ...]) -> list[list[bytes]]:
    """For each word, the phrases of one, two ... words that begin there."""
    encoded = [word.encode() for word in words]
    return [
        [b" ".join(encoded[first:last]) for last in range(first + 1, min(first + MAX_PHRASE_WORDS, len(words)) + 1)]
        for first in range(len(words))
    ]


def offsets(lengths: Iterable[int]) -> Ints:
    """Return where each of some consecutive stretches begins, and where the last ends."""
    ends: Any = np.cumsum(np.fromiter(lengths, dtype=np.int64))
    return np.concatenate([np.zeros(1, dtype=np.int64), ends])
