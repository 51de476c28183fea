"""Frames as token ids: a batch of them written at once, on any device."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from spotchange.everyday.kinds import KINDS
from spotchange.everyday.language.wording import BOS, EOS, FACTS, FRAMES, LONGEST, PAD, TOKEN_IDS

_SEGMENTS = 6  # parts of a frame, at most


def write_frames(kind: Tensor, facts: Tensor, chance: Tensor) -> tuple[Tensor, Tensor]:
    """Token ids (scenes, LONGEST) and a mask that is True on words.

    Args:
        kind: (scenes,), into KINDS.
        facts: int64 (scenes, facts), in the order of FACTS.
        chance: (scenes,) in [0, 1): which of a kind's frames.
    """
    table = _tables(kind.device)
    count = table["count"][kind]
    frame = table["first"][kind] + (chance * count).long().minimum(count - 1)
    padded = torch.cat([torch.zeros_like(facts[:, :1]), facts], dim=1)
    asked = table["asked"][frame]  # (scenes, segments)
    phrase = table["phrase"][frame] + padded.gather(1, asked)
    lengths = table["lengths"][phrase]
    ends = lengths.cumsum(1)
    # The word at each place belongs to the segment in whose span it lies.
    place = torch.arange(LONGEST - 1, device=kind.device).expand(len(kind), -1).contiguous()
    segment = torch.searchsorted(ends, place, right=True)
    inside = segment < _SEGMENTS
    segment = segment.clamp(max=_SEGMENTS - 1)
    within = place - (ends - lengths).gather(1, segment)
    words = table["words"][phrase.gather(1, segment), within.clamp(0, table["words"].shape[1] - 1)]
    words = torch.where(inside, words, PAD)
    words = torch.where(place == ends[:, -1:], EOS, words)
    ids = torch.cat([torch.full_like(words[:, :1], BOS), words], dim=1)
    return ids, ids != PAD


@cache
def _tables(device: torch.device) -> dict[str, Tensor]:
    """Frames as rows of phrases; a phrase that depends on a fact is the first of its list, plus the fact."""
    phrases: list[str] = [""]
    starts = {}
    for name, texts in FACTS.items():
        starts[name] = len(phrases)
        phrases += list(texts)
    names = list(FACTS)
    phrase: list[list[int]] = []
    asked: list[list[int]] = []
    first: list[int] = []
    count: list[int] = []
    for kind in KINDS:
        first.append(len(phrase))
        count.append(len(FRAMES[kind]))
        for text in FRAMES[kind]:
            parts, row, facts = _parts(text), [], []
            for part in parts:
                if part in starts:
                    row.append(starts[part])
                    facts.append(1 + names.index(part))
                else:
                    phrases.append(part)
                    row.append(len(phrases) - 1)
                    facts.append(0)
            phrase.append(row + [0] * (_SEGMENTS - len(row)))
            asked.append(facts + [0] * (_SEGMENTS - len(facts)))
    tokens = [[TOKEN_IDS[word] for word in text.split()] for text in phrases]
    longest = max(map(len, tokens))
    tables = {
        "phrase": phrase,
        "asked": asked,
        "first": first,
        "count": count,
        "lengths": [len(each) for each in tokens],
        "words": [each + [PAD] * (longest - len(each)) for each in tokens],
    }
    return {name: torch.tensor(values, device=device) for name, values in tables.items()}


def _parts(text: str) -> list[str]:
    """Runs of plain words and single facts."""
    parts: list[str] = []
    plain: list[str] = []
    for word in text.split():
        if word in FACTS:
            parts += [" ".join(plain)] if plain else []
            parts.append(word)
            plain = []
        else:
            plain.append(word)
    return parts + ([" ".join(plain)] if plain else [])
