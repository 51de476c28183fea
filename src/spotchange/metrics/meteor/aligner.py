"""METEOR's aligner, compiled: a beam search over the reference that decides which matches to keep.

Sentences are numbers here, and arrays flat with offsets. The oddities are the original's; the comments say which.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spotchange.metrics.meteor.matcher import (
    CANDIDATE_START,
    CANDIDATE_WORDS,
    EXACT,
    KIND,
    REFERENCE_START,
    REFERENCE_WORDS,
    compiled,
    find_matches,
)

BEAM = 40
STATISTICS = 23
# Columns of a search path.
CANDIDATE_SUM, REFERENCE_SUM, CHUNKS, DISTANCE, OPEN_END, BUSY_UNTIL, PARENT, MATCH = range(8)


@compiled
def _by_start(matches: Any, reference_words: int) -> Any:
    """Sort the matches by their start in the reference, else as they are; return where each start's begin, too."""
    starts = np.zeros(reference_words + 1, np.int64)
    for m in range(len(matches)):
        starts[matches[m, REFERENCE_START] + 1] += 1
    for r in range(reference_words):
        starts[r + 1] += starts[r]
    ordered = np.empty_like(matches)
    filled = starts.copy()
    for m in range(len(matches)):
        start = matches[m, REFERENCE_START]
        for column in range(5):
            ordered[filled[start], column] = matches[m, column]
        filled[start] += 1
    return ordered, starts


@compiled
def _fixed_matches(matches: Any, starts: Any, candidate_words: int, reference_words: int) -> Any:
    """Mark each match that is alone at its start and whose words, on both sides, no other match covers."""
    candidate_cover = np.zeros(candidate_words, np.int64)
    reference_cover = np.zeros(reference_words, np.int64)
    for m in range(len(matches)):
        for k in range(matches[m, CANDIDATE_WORDS]):
            candidate_cover[matches[m, CANDIDATE_START] + k] += 1
        for k in range(matches[m, REFERENCE_WORDS]):
            reference_cover[matches[m, REFERENCE_START] + k] += 1
    fixed = np.zeros(len(matches), np.bool_)
    for m in range(len(matches)):
        start = matches[m, REFERENCE_START]
        fixed[m] = starts[start + 1] - starts[start] == 1
        for k in range(matches[m, CANDIDATE_WORDS]):
            fixed[m] &= candidate_cover[matches[m, CANDIDATE_START] + k] == 1
        for k in range(matches[m, REFERENCE_WORDS]):
            fixed[m] &= reference_cover[start + k] == 1
    return fixed


@compiled
def _take(path: Any, match: Any, number: int) -> None:
    """Extend a path by a match."""
    weight = 1.0 if match[KIND] == EXACT else 0.5
    # Parity: the sums are whole numbers, cut at every addition, so a one-word stem, synonym or paraphrase adds nothing.
    path[CANDIDATE_SUM] = int(path[CANDIDATE_SUM] + weight * match[CANDIDATE_WORDS])
    path[REFERENCE_SUM] = int(path[REFERENCE_SUM] + weight * match[REFERENCE_WORDS])
    if path[OPEN_END] >= 0 and path[OPEN_END] != match[CANDIDATE_START]:
        path[CHUNKS] += 1
    path[OPEN_END] = match[CANDIDATE_START] + match[CANDIDATE_WORDS]
    path[BUSY_UNTIL] = match[REFERENCE_START] + match[REFERENCE_WORDS]
    path[MATCH] = number


@compiled
def _close(path: Any) -> None:
    if path[OPEN_END] >= 0:
        path[CHUNKS] += 1
        path[OPEN_END] = -1


@compiled
def _best_paths(paths: Any, count: int) -> Any:
    """Return the numbers of the best paths: more matched words, then fewer chunks, smaller distance, first come."""
    order = np.empty(min(count, BEAM), np.int64)
    keys = np.empty(min(count, BEAM), np.int64)
    kept = 0
    for p in range(count):
        matched = paths[p, CANDIDATE_SUM] + paths[p, REFERENCE_SUM]
        key = (-matched << 42) + (paths[p, CHUNKS] << 26) + paths[p, DISTANCE]
        if kept == BEAM and key >= keys[kept - 1]:
            continue
        place = min(kept, BEAM - 1)
        while place > 0 and keys[place - 1] > key:
            keys[place], order[place] = keys[place - 1], order[place - 1]
            place -= 1
        keys[place], order[place] = key, p
        kept = min(kept + 1, BEAM)
    return order


@compiled
def _fits(used: Any, match: Any) -> bool:
    """Whether the candidate's words of `match` are free."""
    free = True
    for k in range(match[CANDIDATE_WORDS]):
        free = free and not used[match[CANDIDATE_START] + k]
    return free


@compiled
def _copy(source: Any, target: Any) -> None:
    for place in range(len(source)):  # a loop compiles faster than a slice
        target[place] = source[place]


@compiled
def _branch(path: Any, used: Any, branches: Any, count: int, matches: Any, candidates: Any, fixed: Any) -> int:
    """Write the path with each match that may follow, and with none, to `branches`; return how many those are."""
    word, first, last = candidates
    path[MATCH] = -1
    if path[BUSY_UNTIL] <= word:
        if last - first == 1 and fixed[first]:
            _take(path, matches[first], first)
        else:
            for m in range(first, last):
                if _fits(used, matches[m]):
                    _copy(path, branches[count])
                    _take(branches[count], matches[m], m)
                    count += 1
                    # Parity: the distance goes to the parent, and so to the branches after this one.
                    path[DISTANCE] += abs(matches[m, REFERENCE_START] - matches[m, CANDIDATE_START])
            _close(path)
    _copy(path, branches[count])
    return count + 1


@compiled
def _keep_best(branches: Any, count: int, matches: Any, beam: Any, old_beam: Any) -> int:
    """Fill `beam` (paths, candidate words they use, matches they chose) with the best branches; return how many."""
    paths, used, chosen = beam
    order = _best_paths(branches, count)
    for place in range(len(order)):
        branch = branches[order[place]]
        _copy(branch, paths[place])
        _copy(old_beam[1][branch[PARENT]], used[place])
        _copy(old_beam[2][branch[PARENT]], chosen[place])
        paths[place, PARENT] = place
        if branch[MATCH] >= 0:
            match = matches[branch[MATCH]]
            for k in range(match[CANDIDATE_WORDS]):
                used[place, match[CANDIDATE_START] + k] = 1
            chosen[place, match[REFERENCE_START]] = branch[MATCH]
    return len(order)


@compiled
def _empty_beam(candidate_words: int, reference_words: int) -> Any:
    paths, used = np.zeros((BEAM, 8), np.int64), np.zeros((BEAM, candidate_words), np.int64)
    paths[0, OPEN_END] = -1
    return paths, used, np.full((BEAM, reference_words), -1, np.int64)


@compiled
def _align(matches: Any, candidate_words: int, reference_words: int) -> Any:
    """Search the best alignment; return the matches in order, the one chosen at each reference word, the chunks."""
    matches, starts = _by_start(matches, reference_words)
    fixed = _fixed_matches(matches, starts, candidate_words, reference_words)
    widest = 1
    for r in range(reference_words):
        widest = max(widest, starts[r + 1] - starts[r] + 1)
    branches = np.empty((BEAM * widest, 8), np.int64)
    beam, other_beam = _empty_beam(candidate_words, reference_words), _empty_beam(candidate_words, reference_words)
    alive = 1
    for r in range(reference_words):
        count = 0
        for p in range(alive):
            count = _branch(beam[0][p], beam[1][p], branches, count, matches, (r, starts[r], starts[r + 1]), fixed)
        alive = _keep_best(branches, count, matches, other_beam, beam)
        beam, other_beam = other_beam, beam
    # Parity: chunks that are still open count only now, after the last cut of the beam.
    for p in range(alive):
        _close(beam[0][p])
    best = _best_paths(beam[0], alive)[0]
    return matches, beam[2][best], beam[0][best, CHUNKS]


@compiled
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
        for word in candidate:
            line[2] += is_function[word]
        for word in reference:
            line[3] += is_function[word]
        matches = find_matches(candidate, reference, phrases[c0:c1], phrases[r0:r1], lexicon)
        if len(matches) == 0:
            continue
        matches, choice, line[20] = _align(matches, len(candidate), len(reference))
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
