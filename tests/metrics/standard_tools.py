"""The original tools, run as pycocoevalcap runs them, and strange captions to feed them. Needs Java."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

WORDS_AND_SIGNS = """
a b cat Dog NASA U.S. u.s. e.g. etc. Inc. no. No. Mr. don't isn't it's we'll cannot gonna o'clock O'Brien
ma'am 'tis 'em '90s 1 12 123 1234 2.5 1,000 1/2 3:30 555-1212 10% $5 £ € ½ … — – - -- . , ; : ! ? ' " ` ``
'' ( ) [ ] { } < > / \\ | @ # & * + = ^ _ ~ % $ http:// https://x.com www. .com @user #tag a@b.com x.jpg
1.png <unk> <b> </b> &amp; &lt; :) :-( ;) =D ... ?! !! n't 's 'll 're 've ’ ‘ “ ” é ñ 你 я ☺ 😀
and/or left-hand x_y well-known C++ c# AT&T R&D pm a.m. 5p.m. -5 +3 .5 st nd th s t d m n b. The A If
"""
PIECES = [*WORDS_AND_SIGNS.split(), "\xa0", "\t", "\xad", *[" "] * 12]
SIGNS = [chr(code) for code in (*range(32, 127), *range(0xA0, 0x250), *range(0x2010, 0x2028), *range(0x2190, 0x2200))]


def strange_captions(many: int, seed: int) -> list[str]:
    """Captions of odd pieces, and captions of odd signs."""
    draw = random.Random(seed)
    texts = []
    for number in range(many):
        source = PIECES if number % 3 else SIGNS
        texts.append("".join(draw.choice(source) for _ in range(draw.randint(1, 8))))
    return [text for text in texts if text.strip()]


def ptb_sentences(texts: list[str]) -> list[str]:
    """Tokens of each text, joined by blanks.

    A neutral caption stands between any two, because the original looks from one caption into the next.
    """
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    captions = {}
    for number, text in enumerate(texts):
        captions[2 * number] = [{"caption": text}]
        captions[2 * number + 1] = [{"caption": "and"}]
    tokenized: dict[int, list[str]] = PTBTokenizer().tokenize(captions)
    assert len(tokenized) == 2 * len(texts)
    assert all(tokenized[2 * number + 1] == ["and"] for number in range(len(texts)))
    return [tokenized[2 * number][0] for number in range(len(texts))]


@contextmanager
def meteor_jar() -> Iterator[Any]:
    """pycocoevalcap's METEOR, closed properly."""
    from pycocoevalcap.meteor.meteor import Meteor

    jar = Meteor()
    try:
        yield jar
    finally:
        jar.meteor_p.kill()
        for stream in (jar.meteor_p.stdin, jar.meteor_p.stdout, jar.meteor_p.stderr):
            stream.close()
        jar.meteor_p.wait()


def jar_scores(jar: Any, candidates: list[str], references: list[list[str]]) -> tuple[float, list[float]]:
    """The jar's corpus and item scores."""
    truth = dict(enumerate(references))
    score: tuple[float, list[float]] = jar.compute_score(truth, {n: [text] for n, text in enumerate(candidates)})
    return score
