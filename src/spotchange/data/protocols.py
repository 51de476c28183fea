"""How the papers score each data set: which sentences are references, which pairs are counted together.

The best checkpoint is always chosen on the validation split, by the protocol's main metric.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spotchange.config.data import ProtocolName
from spotchange.data.metadata import Row
from spotchange.errors import ConfigError

TOTAL, CHANGE, DISTRACTORS, NO_CHANGE = "total", "change", "distractors", "no change"

# With blanks around it the full stop is a token of its own for every tokenizer, and scoring drops it.
SENTENCE_BREAK = " . "


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """One way to score captions on a data set."""

    name: ProtocolName
    summary: str
    main_metric: str = "CIDEr-D"
    """Chooses the checkpoint on the validation split."""
    joins_sentences: bool = False
    """All sentences of a pair are one reference, and the model says them all; else each is a reference of its own."""
    counts_wordless: bool = False
    """Pairs of the published split that nobody wrote a sentence for count, with an empty reference: they score 0."""
    by_type: bool = False
    """Report every change type besides the total."""
    by_change: str | None = None
    """Report pairs with change apart from those without, which are called this."""

    def references(self, captions: Sequence[str]) -> list[str]:
        """What a prediction is scored against; also the sentences a model learns to say."""
        kept = [caption.strip() for caption in captions if caption.strip()]
        if self.joins_sentences and kept:
            return [SENTENCE_BREAK.join(caption.rstrip(" .") for caption in kept)]
        return kept

    def groups(self, change_type: str | None) -> list[str]:
        """Tables a pair of this change type is counted in."""
        groups = [TOTAL]
        if change_type is None:
            return groups
        if self.by_change is not None:
            groups.append(self.by_change if change_type == "none" else CHANGE)
        if self.by_type and change_type != "none":
            groups.append(change_type)
        return groups

    def group_ids(self, rows: Iterable[Row]) -> dict[str, list[str]]:
        """Ids of the pairs of every table, in the order tables are first met."""
        found: dict[str, list[str]] = {}
        for row in rows:
            for group in self.groups(row.change_type):
                found.setdefault(group, []).append(row.id)
        return found


PROTOCOLS: dict[ProtocolName, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            name="pairs",
            summary="every caption is a reference; total and by change type where the set has types",
            by_type=True,
            by_change=NO_CHANGE,
        ),
        Protocol(
            name="clevr-change",
            summary="change pairs and distractors together, apart, and every change type alone",
            by_type=True,
            by_change=DISTRACTORS,
        ),
        Protocol(
            name="spot-the-diff-single",
            summary="the model says one sentence, scored against every sentence of the pair; pairs without one score 0",
            counts_wordless=True,
        ),
        Protocol(
            name="spot-the-diff-multi",
            summary="the model says all differences, scored against the pair's sentences joined to one",
            joins_sentences=True,
            counts_wordless=True,
        ),
        Protocol(
            name="birds-to-words",
            summary="the model says a paragraph, scored against about five paragraphs; ROUGE-L counts",
            main_metric="ROUGE-L",
        ),
        Protocol(
            name="levir-cc",
            summary="five references a pair; all pairs, pairs with change and pairs without",
            by_change=NO_CHANGE,
        ),
    )
}


def get_protocol(name: str) -> Protocol:
    """A protocol by name; the error names the nearest."""
    for known, protocol in PROTOCOLS.items():
        if known == name:
            return protocol
    close = difflib.get_close_matches(name, PROTOCOLS, n=1, cutoff=0.3)
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(PROTOCOLS)}"
    raise ConfigError(f"unknown protocol '{name}'", hint=hint)
