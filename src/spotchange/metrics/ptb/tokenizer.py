"""Caption tokens equal to those of the Stanford PTB tokenizer as pycocoevalcap calls it, without Java.

A longest-match lexer: at each position every rule is tried, the longest match wins, and of equals the first. Group 1 of
a rule is the token; what a rule matches after it is context that counts for the length but is read again. The rules
were found by observation (feeding the original exhaustive strings), so each line keeps a quirk for parity's sake.

Every caption stands alone. The original reads all captions as one text, so a line end inside a caption shifts the rest,
and a final "b." loses its dot if the next caption begins with "The": those two are not copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from spotchange.metrics.ptb.rules import ASSIMILATED, LITERAL_RULES, RULES, respell

# The list pycocoevalcap drops. It compares after lower-casing, so bracket names such as -lrb- stay.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)

# Line ends would shift every later caption in the original.
_LINE_ENDS = str.maketrans(dict.fromkeys("\n\r\x0b\x0c\x85\u2028\u2029", " "))

_PLAIN_WORD = re.compile(r"[A-Za-z]+(?=[ \t\n])")
# A no-break space is one only after a common one: an address may begin with it.
_SPACE = re.compile(r"[ \t\n][ \t\n\xa0\u2000-\u200a\u3000]*")


def tokenize(text: str) -> list[str]:
    """Return the lower-cased tokens of one caption, punctuation dropped.

    A token may hold a no-break space ("1\xa01/2"), as in the original.
    """
    return list(_tokens(text))


def tokenize_all(texts: Iterable[str]) -> list[list[str]]:
    """Tokenize many captions; each distinct one is lexed once."""
    return [list(_tokens(text)) for text in texts]


@lru_cache(maxsize=1 << 17)
def _tokens(text: str) -> tuple[str, ...]:
    tokens = _spelled_tokens(text)
    # pycocoevalcap strips the line, and with it no-break spaces at the end of the last token.
    if tokens:
        tokens[-1] = tokens[-1].rstrip()
    return tuple(token for token in tokens if token not in PUNCTUATION)


def _spelled_tokens(text: str) -> list[str]:
    # The final line end is the context that the original always has between captions.
    text = text.translate(_LINE_ENDS) + "\n"
    tokens: list[str] = []
    position = 0
    while position < len(text):
        if space := _SPACE.match(text, position):
            position = space.end()
        elif (plain := _PLAIN_WORD.match(text, position)) and plain[0].lower() not in ASSIMILATED:
            tokens.append(plain[0].lower())
            position = plain.end()
        else:
            token, position = _longest(text, position)
            if token := respell(token):
                tokens.append(token)
    return tokens


def _longest(text: str, position: int) -> tuple[str, int]:
    """Return the token at `position` (empty for a character that is dropped) and where to read on."""
    best, best_end = None, position
    for rule in RULES:
        match = rule.match(text, position)
        if match and match.end() > best_end:
            best, best_end = match, match.end()
    if best is None:
        return "", position + 1
    token = best[1] if best.re in LITERAL_RULES else best[1].replace("\xad", "")
    return token, best.end(1)
