"""The papers' own rows, to print beside ours."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from spotchange.errors import InputError

CAVEAT = "published rows are as printed in the papers, on each data set's own pictures and test split"


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """One system of one paper; all numbers in percent except ranks."""

    system: str
    source: str
    scores: dict[str, float]
    cider_by_type: dict[str, float] = field(default_factory=dict)
    retrieval: dict[str, dict[str, float]] = field(default_factory=dict)
    ablation: bool = False  # a paper's own variant: in the data, but too many for the main table


@cache
def _content() -> dict[str, Any]:
    text = resources.files("spotchange.evaluation").joinpath("published.json").read_text(encoding="utf-8")
    sets: dict[str, Any] = json.loads(text)["data_sets"]
    return sets


def published_names() -> list[str]:
    """Data sets with published rows."""
    return list(_content())


def published_rows(name: str) -> list[PublishedRow]:
    """Rows of a data set; case, blanks, dots and underscores in its name do not matter."""
    wanted = "-".join(name.lower().replace("_", "-").replace(".", "-").split())
    if wanted not in _content():
        raise InputError(f"no published rows for {name!r}", hint=f"there are rows for {', '.join(published_names())}")
    return [
        PublishedRow(
            system=row["system"],
            source=row["source"],
            scores=row["scores"],
            cider_by_type=row.get("CIDEr-D by type", {}),
            retrieval=row.get("retrieval", {}),
            ablation=row.get("ablation", False),
        )
        for row in _content()[wanted]["rows"]
    ]
