"""METEOR's matcher, compiled: which words and phrases of a candidate could correspond to which of a reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

MAX_PHRASE_WORDS = 7
EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
# Columns of a match: where and how long it is in the reference and in the candidate, and its kind.
REFERENCE_START, REFERENCE_WORDS, CANDIDATE_START, CANDIDATE_WORDS, KIND = range(5)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first use, and keep the result on disk where there is a place for it."""
    try:
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder to keep the compiled code in
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]


@compiled
def _share_meaning(first: int, second: int, meanings: Any, meaning_start: Any) -> bool:
    a, b = meaning_start[first], meaning_start[second]
    while a < meaning_start[first + 1] and b < meaning_start[second + 1]:
        if meanings[a] == meanings[b]:
            return True
        if meanings[a] < meanings[b]:
            a += 1
        else:
            b += 1
    return False


@compiled
def _put(matches: Any, row: int, reference: int, reference_words: int, candidate: int, words: int, kind: int) -> None:
    matches[row, REFERENCE_START], matches[row, REFERENCE_WORDS] = reference, reference_words
    matches[row, CANDIDATE_START], matches[row, CANDIDATE_WORDS] = candidate, words
    matches[row, KIND] = kind


@compiled
def _link_count(source: Any, target: Any, links: Any, link_start: Any) -> int:
    """How many matches `_add_paraphrases` will find."""
    count = 0
    for start in range(len(source)):
        for phrase in source[start]:
            if phrase >= 0:
                for link in range(link_start[phrase], link_start[phrase + 1]):
                    for other_start in range(len(target)):
                        for other in target[other_start]:
                            count += other == links[link]
    return count


@compiled
def _add_paraphrases(
    matches: Any, count: int, source: Any, target: Any, links: Any, link_start: Any, source_is_reference: bool
) -> int:
    """Add a match for every phrase of `source` whose paraphrase stands in `target`; duplicates count."""
    for start in range(len(source)):
        for words in range(MAX_PHRASE_WORDS):
            phrase = source[start, words]
            if phrase < 0:
                continue
            for link in range(link_start[phrase], link_start[phrase + 1]):
                for other_start in range(len(target)):
                    for other_words in range(MAX_PHRASE_WORDS):
                        if target[other_start, other_words] == links[link]:
                            if source_is_reference:
                                _put(matches, count, start, words + 1, other_start, other_words + 1, PARAPHRASE)
                            else:
                                _put(matches, count, other_start, other_words + 1, start, words + 1, PARAPHRASE)
                            count += 1
    return count


@compiled
def find_matches(candidate: Any, reference: Any, candidate_phrases: Any, reference_phrases: Any, lexicon: Any) -> Any:
    """Return all matches: exact ones, stems, synonyms, paraphrases, each in the order of the reference."""
    stems, meanings, meaning_start, links, link_start = lexicon
    paraphrases = _link_count(reference_phrases, candidate_phrases, links, link_start)
    paraphrases += _link_count(candidate_phrases, reference_phrases, links, link_start)
    matches = np.empty((2 * len(candidate) * len(reference) + paraphrases, 5), np.int64)
    count = 0
    identical = len(candidate) == len(reference)
    for r in range(len(reference)):
        identical = identical and reference[r] == candidate[r]
        for c in range(len(candidate)):
            if reference[r] == candidate[c]:
                _put(matches, count, r, 1, c, 1, EXACT)
                count += 1
    if identical:
        return matches[:count]
    for kind in (STEM, SYNONYM):
        for r in range(len(reference)):
            for c in range(len(candidate)):
                a, b = reference[r], candidate[c]
                alike = stems[a] == stems[b] if kind == STEM else _share_meaning(a, b, meanings, meaning_start)
                if a != b and alike:
                    _put(matches, count, r, 1, c, 1, kind)
                    count += 1
    count = _add_paraphrases(matches, count, reference_phrases, candidate_phrases, links, link_start, True)
    count = _add_paraphrases(matches, count, candidate_phrases, reference_phrases, links, link_start, False)
    return matches[:count]
