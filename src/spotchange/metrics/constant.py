"""The best caption that never looks: one sentence said of every pair, the floor under every table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spotchange.metrics.cider import cider_d
from spotchange.metrics.scoring import token_sentences
from spotchange.metrics.sentences import SentenceTable

CANDIDATES = 16  # the most frequent sentences compete
JUDGED_ITEMS = 500  # enough to rank them; all of a large set would only cost time


@dataclass(frozen=True)
class ConstantCaption:
    """A caption, and where it was chosen."""

    caption: str
    source: str

    def __str__(self) -> str:
        return f"constant: “{self.caption}” (best of the {self.source})"


def best_constant(references: Mapping[str, Sequence[str]], *, source: str, seed: int = 0) -> ConstantCaption:
    """Choose, among the most frequent references, the one that scores the highest CIDEr-D when said of everything.

    Args:
        references: texts by id; those of the training split where there is one, so nothing is chosen on test.
        source: where they are from, for the reader.
        seed: draws the items on which the candidates are compared.
    """
    written = [text for texts in references.values() for text in texts]
    sentences = token_sentences(written)
    how_often = Counter(sentence for sentence in sentences if sentence)
    first_written = dict(zip(reversed(sentences), reversed(written), strict=True))
    frequent = [sentence for sentence, _ in how_often.most_common(CANDIDATES)]
    if not frequent:
        return ConstantCaption("", source)
    judged = _some_items(references, seed)
    scores = [cider_d(SentenceTable([sentence] * len(judged), judged))[0] for sentence in frequent]
    return ConstantCaption(first_written[frequent[int(np.argmax(scores))]], source)


def _some_items(references: Mapping[str, Sequence[str]], seed: int) -> list[list[str]]:
    names = [name for name, texts in references.items() if texts]
    if len(names) > JUDGED_ITEMS:
        chosen = np.random.default_rng(seed).choice(len(names), JUDGED_ITEMS, replace=False)
        names = [names[place] for place in sorted(chosen)]
    return [token_sentences(references[name]) for name in names]
