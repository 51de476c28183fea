"""The line that says how a number came about, so that no number stands naked."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence

from spotchange.metrics.bleu import SMALL, TINY
from spotchange.metrics.cider import SIGMA
from spotchange.metrics.rouge import BETA
from spotchange.metrics.sentences import MAX_ORDER

TOKENIZER = "ptb-3.4.1-coco"


def signature(references: Mapping[str, Sequence[str]], *, meteor: bool, **more: str | None) -> str:
    """Describe references, tokenizer, metric settings and version in one line.

    Args:
        references: the texts scored against, by id.
        meteor: whether METEOR was computed.
        **more: further facts, such as split and model; those that are None are left out.
    """
    sentences = sum(len(texts) for texts in references.values())
    parts = {
        "refs": f"{len(references)}x{sentences / len(references):.2f}@{references_hash(references)}",
        "tok": TOKENIZER,
        "bleu": f"closest,{TINY:g}/{SMALL:g}",
        "meteor": "1.5-en-norm" if meteor else "absent",
        "rouge-l": f"beta{BETA}",
        "cider-d": f"n{MAX_ORDER},sigma{SIGMA:g},df=refs",
        **{name: text for name, text in more.items() if text is not None},
        # The package itself is loaded by now; an import statement would point up past the layers above metrics.
        "spotchange": sys.modules["spotchange"].__version__,
    }
    return "|".join(f"{name}:{text}" for name, text in parts.items())


def references_hash(references: Mapping[str, Sequence[str]]) -> str:
    """Eight hex digits that change with any id or reference, not with the order of the ids."""
    digest = hashlib.sha256()
    for name in sorted(references):
        for part in (name, *references[name], ""):
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()[:8]
