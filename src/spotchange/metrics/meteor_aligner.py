"""METEOR's matcher and aligner, compiled: which words of a candidate correspond to which of a reference.

All arrays are flat with offsets, because the compiled code sees sentences as numbers only. The oddities are the
original's and are kept for parity; the comments say which they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

BEAM = 40
MAX_PHRASE_WORDS = 7
EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
# Columns of a match: where and how long it is in the reference and in the candidate, and its kind.
REFERENCE_START, REFERENCE_WORDS, CANDIDATE_START, CANDIDATE_WORDS, KIND = range(5)
# Columns of a search path.
CANDIDATE_SUM, REFERENCE_SUM, CHUNKS, DISTANCE, OPEN_END, BUSY_UNTIL = range(6)
STATISTICS = 23


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder to keep the compiled code in
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]


@_compiled
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


@_compiled
def _add_paraphrases(
    found: Any, source: Any, target: Any, links: Any, link_start: Any, source_is_reference: bool
) -> None:
    """Append a match for every phrase of `source` whose paraphrase stands in `target`; duplicates count."""
    for start in range(source.shape[0]):
        for words in range(MAX_PHRASE_WORDS):
            phrase = source[start, words]
            if phrase < 0:
                continue
            for link in range(link_start[phrase], link_start[phrase + 1]):
                for other_start in range(target.shape[0]):
                    for other_words in range(MAX_PHRASE_WORDS):
                        if target[other_start, other_words] == links[link]:
                            if source_is_reference:
                                found.append((start, words + 1, other_start, other_words + 1, PARAPHRASE))
                            else:
                                found.append((other_start, other_words + 1, start, words + 1, PARAPHRASE))


@_compiled
def _find_matches(candidate: Any, reference: Any, candidate_phrases: Any, reference_phrases: Any, lexicon: Any) -> Any:
    """Return all matches, ordered by their start in the reference, then by kind, then as found."""
    stems, meanings, meaning_start, links, link_start = lexicon
    found = [(0, 0, 0, 0, 0)]
    found.pop()
    identical = len(candidate) == len(reference) and np.all(candidate == reference)
    for r in range(len(reference)):
        for c in range(len(candidate)):
            if reference[r] == candidate[c]:
                found.append((r, 1, c, 1, EXACT))
    if not identical:
        for r in range(len(reference)):
            for c in range(len(candidate)):
                if reference[r] != candidate[c]:
                    if stems[reference[r]] == stems[candidate[c]]:
                        found.append((r, 1, c, 1, STEM))
                    if _share_meaning(reference[r], candidate[c], meanings, meaning_start):
                        found.append((r, 1, c, 1, SYNONYM))
        _add_paraphrases(found, reference_phrases, candidate_phrases, links, link_start, True)
        _add_paraphrases(found, candidate_phrases, reference_phrases, links, link_start, False)
    matches = np.empty((len(found), 5), np.int64)
    for row in range(len(found)):
        for column in range(5):
            matches[row, column] = found[row][column]
    # Stable, by start in the reference and kind: stems and synonyms were found together.
    order = np.argsort(matches[:, REFERENCE_START] * 4 + matches[:, KIND], kind="mergesort")
    return matches[order]


@_compiled
def _fixed_matches(matches: Any, starts: Any, candidate_words: int, reference_words: int) -> Any:
    """Mark each match that is alone at its start and whose words, on both sides, no other match covers."""
    candidate_cover = np.zeros(candidate_words, np.int64)
    reference_cover = np.zeros(reference_words, np.int64)
    for m in range(len(matches)):
        match = matches[m]
        candidate_cover[match[CANDIDATE_START] : match[CANDIDATE_START] + match[CANDIDATE_WORDS]] += 1
        reference_cover[match[REFERENCE_START] : match[REFERENCE_START] + match[REFERENCE_WORDS]] += 1
    fixed = np.zeros(len(matches), np.bool_)
    for m in range(len(matches)):
        match = matches[m]
        start = match[REFERENCE_START]
        fixed[m] = (
            starts[start + 1] - starts[start] == 1
            and np.max(candidate_cover[match[CANDIDATE_START] : match[CANDIDATE_START] + match[CANDIDATE_WORDS]]) == 1
            and np.max(reference_cover[start : start + match[REFERENCE_WORDS]]) == 1
        )
    return fixed


@_compiled
def _take(path: Any, used: Any, choice: Any, match: Any, number: int) -> None:
    """Extend a path by a match."""
    weight = 1.0 if match[KIND] == EXACT else 0.5
    # Parity: the sums are whole numbers, cut at every addition, so a one-word stem, synonym or paraphrase adds nothing.
    path[CANDIDATE_SUM] = int(path[CANDIDATE_SUM] + weight * match[CANDIDATE_WORDS])
    path[REFERENCE_SUM] = int(path[REFERENCE_SUM] + weight * match[REFERENCE_WORDS])
    if path[OPEN_END] >= 0 and path[OPEN_END] != match[CANDIDATE_START]:
        path[CHUNKS] += 1
    path[OPEN_END] = match[CANDIDATE_START] + match[CANDIDATE_WORDS]
    path[BUSY_UNTIL] = match[REFERENCE_START] + match[REFERENCE_WORDS]
    used[match[CANDIDATE_START] : match[CANDIDATE_START] + match[CANDIDATE_WORDS]] = True
    choice[match[REFERENCE_START]] = number


@_compiled
def _close(path: Any) -> None:
    if path[OPEN_END] >= 0:
        path[CHUNKS] += 1
        path[OPEN_END] = -1


@_compiled
def _sorted_paths(paths: Any, count: int) -> Any:
    """Order the paths: more matched words, then fewer chunks, then the smaller distance, then as they came."""
    keys = np.empty(count, np.int64)
    for p in range(count):
        matched = paths[p, CANDIDATE_SUM] + paths[p, REFERENCE_SUM]
        keys[p] = (-matched << 42) + (paths[p, CHUNKS] << 26) + paths[p, DISTANCE]
    return np.argsort(keys, kind="mergesort")


@_compiled
def _fits(used: Any, match: Any) -> bool:
    """Whether the candidate's words of `match` are free."""
    for c in range(match[CANDIDATE_START], match[CANDIDATE_START] + match[CANDIDATE_WORDS]):
        if used[c]:
            return False
    return True


@_compiled
def _align(matches: Any, candidate_words: int, reference_words: int) -> Any:
    """Search the best alignment; return the match chosen at each reference word (-1: none) and the chunks."""
    starts = np.searchsorted(matches[:, REFERENCE_START], np.arange(reference_words + 1))
    fixed = _fixed_matches(matches, starts, candidate_words, reference_words)
    widest = 1
    for r in range(reference_words):
        widest = max(widest, starts[r + 1] - starts[r] + 1)
    paths = np.zeros((BEAM * widest, 6), np.int64)
    used = np.zeros((BEAM * widest, candidate_words), np.bool_)
    choices = np.full((BEAM * widest, reference_words), -1, np.int64)
    paths[0, OPEN_END] = -1
    count = 1
    for r in range(reference_words):
        order = _sorted_paths(paths, count)[:BEAM]
        old_paths, old_used, old_choices = paths[order], used[order], choices[order]
        count = 0
        for p in range(len(order)):
            path, path_used, path_choice = old_paths[p], old_used[p], old_choices[p]
            if path[BUSY_UNTIL] <= r:
                alone = starts[r + 1] - starts[r] == 1 and fixed[starts[r]]
                for m in range(starts[r], starts[r + 1]):
                    if not alone and not _fits(path_used, matches[m]):
                        continue
                    if alone:
                        _take(path, path_used, path_choice, matches[m], m)
                        continue
                    paths[count], used[count], choices[count] = path, path_used, path_choice
                    _take(paths[count], used[count], choices[count], matches[m], m)
                    count += 1
                    # Parity: the distance goes to the parent, and so to the branches after this one.
                    path[DISTANCE] += abs(matches[m, REFERENCE_START] - matches[m, CANDIDATE_START])
                if not alone:
                    _close(path)
            paths[count], used[count], choices[count] = path, path_used, path_choice
            count += 1
    # Parity: the beam is cut once more before the chunks that are still open count.
    order = _sorted_paths(paths, count)[:BEAM]
    finished = paths[order]
    for p in range(len(order)):
        _close(finished[p])
    best = _sorted_paths(finished, len(order))[0]
    return choices[order[best]], finished[best, CHUNKS]


@_compiled
def align_pairs(pairs: Any, words: Any, sentence_start: Any, phrases: Any, is_function: Any, lexicon: Any) -> Any:
    """Return METEOR's statistics for every pair (candidate sentence, reference sentence).

    Columns: words and function words of both sentences; for each kind of match the content words and the function words
    matched in both; chunks; matched words of both. In each group the candidate comes first.
    """
    statistics = np.zeros((len(pairs), STATISTICS), np.float64)
    for row in range(len(pairs)):
        c0, c1 = sentence_start[pairs[row, 0]], sentence_start[pairs[row, 0] + 1]
        r0, r1 = sentence_start[pairs[row, 1]], sentence_start[pairs[row, 1] + 1]
        candidate, reference = words[c0:c1], words[r0:r1]
        line = statistics[row]
        line[0], line[1] = len(candidate), len(reference)
        line[2], line[3] = np.sum(is_function[candidate]), np.sum(is_function[reference])
        matches = _find_matches(candidate, reference, phrases[c0:c1], phrases[r0:r1], lexicon)
        if len(matches) == 0:
            continue
        choice, line[20] = _align(matches, len(candidate), len(reference))
        for r in range(len(reference)):
            if choice[r] < 0:
                continue
            match = matches[choice[r]]
            column = 4 + 4 * match[KIND]
            for c in range(match[CANDIDATE_START], match[CANDIDATE_START] + match[CANDIDATE_WORDS]):
                line[column + 2 * is_function[candidate[c]]] += 1
            for k in range(r, r + match[REFERENCE_WORDS]):
                line[column + 1 + 2 * is_function[reference[k]]] += 1
            line[21] += match[CANDIDATE_WORDS]
            line[22] += match[REFERENCE_WORDS]
    return statistics
