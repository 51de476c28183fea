"""Sentences, words and phrases as numbers: what METEOR's compiled aligner reads."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotchange.metrics.meteor.data import MeteorData

# What it takes for letters and digits; Greek, Arabic, Chinese and others are split character by character.
_LETTERS = "A-Za-zÀ-ÖØ-öø-žЀ-ԧᴀ-ᵿꙀ-ꙮ꙾-ꚗ"
_ALNUM = f"0-9{_LETTERS}"

# Applied one after another. A match eats its neighbours, so of "',','" not every sign is split: kept for parity.
_SPLITS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rf"([^{_ALNUM} .'`,‘’-])", r" \1 "),
        (r"(\.{2,})", r" \1 "),
        (r"([^0-9]),([^0-9])", r"\1 , \2"),
        (r"([0-9]),([^0-9])", r"\1 , \2"),
        (r"([^0-9]),([0-9])", r"\1 , \2"),
    )
]
_LATER_SPLITS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        ("''", ' " '),
        ("--", "-"),
        (rf"([{_ALNUM}.])-([{_ALNUM}])", r"\1 \2"),
        (rf"([^{_LETTERS}])'([^{_LETTERS}])", r"\1 ' \2"),
        (rf"([^{_ALNUM}])'([{_LETTERS}])", r"\1 ' \2"),
        (rf"([{_LETTERS}])'([^{_LETTERS}])", r"\1 ' \2"),
        (rf"([{_LETTERS}])'([{_LETTERS}])", r"\1 '\2"),
        (r"([0-9])'(s)", r"\1 '\2"),
    )
]
_QUOTES = str.maketrans({"`": "'", "‘": "'", "’": "'", "“": '"', "”": '"', "–": "-"})
_LETTER = re.compile(f"[{_LETTERS}]")


def normalize(sentence: str, prefixes: frozenset[str]) -> tuple[str, ...]:
    """Return the words METEOR compares.

    Args:
        sentence: tokens joined by blanks.
        prefixes: words that keep a dot behind them, whatever follows.
    """
    text = f" {sentence} "
    for pattern, replacement in _SPLITS:
        text = pattern.sub(replacement, text)
    text = text.translate(_QUOTES)
    for pattern, replacement in _LATER_SPLITS:
        text = pattern.sub(replacement, text)
    return tuple(_without_final_dots(text.split(), prefixes))


def _without_final_dots(words: list[str], prefixes: frozenset[str]) -> list[str]:
    """Decide for every word with a final dot whether it keeps it, and lower the case."""
    result: list[str] = []
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        stem = word[:-1]
        if not word.endswith(".") or not stem.strip("."):
            result.append(word.lower())
        elif "." in stem and _LETTER.search(stem):
            result.append(word.replace(".", "").lower())
        elif stem in prefixes or "a" <= following[:1] <= "z":
            result.append(word.lower())
        else:
            result += [stem.lower(), "."]
    return result


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
