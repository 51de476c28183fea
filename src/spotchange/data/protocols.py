"""How the papers score each data set: which sentences are references, and whether they are one text or several."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from spotchange.config.data import ProtocolName
from spotchange.errors import ConfigError

# With blanks around it the full stop is a token of its own for every tokenizer, and scoring drops it.
SENTENCE_BREAK = " . "


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """One way to score captions on a data set."""

    name: ProtocolName
    joins_sentences: bool = False
    """All sentences of a pair are one reference, and the model says them all; else each is a reference of its own."""
    counts_wordless: bool = False
    """Pairs of the published split that nobody wrote a sentence for count, with an empty reference: they score 0."""

    def references(self, captions: Sequence[str]) -> list[str]:
        """What a prediction is scored against; also the sentences a model learns to say."""
        kept = [caption.strip() for caption in captions if caption.strip()]
        if self.joins_sentences and kept:
            return [SENTENCE_BREAK.join(caption.rstrip(" .") for caption in kept)]
        return kept


PROTOCOLS: dict[ProtocolName, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(name="pairs"),
        Protocol(name="clevr-change"),
        Protocol(name="spot-the-diff-single", counts_wordless=True),
        Protocol(name="spot-the-diff-multi", joins_sentences=True, counts_wordless=True),
        Protocol(name="birds-to-words"),
        Protocol(name="levir-cc"),
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
