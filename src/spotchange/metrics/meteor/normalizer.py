"""The text normaliser of METEOR 1.5 (`-l en -norm`): splits words once more, keeping punctuation."""

from __future__ import annotations

import itertools
import re

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
