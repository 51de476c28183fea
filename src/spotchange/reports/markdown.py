"""A comparison of two folders as Markdown, for the comment on a pull request."""

from __future__ import annotations

import re

from spotchange.regression import ComparedFile, FolderComparison

MOST_ROWS = 50  # a comment has a length limit; the rest is counted
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|])")


def markdown_summary(comparison: FolderComparison) -> str:
    """A heading with the counts and a table of what needs attention."""
    counts = ", ".join(f"{count} {status}" for status, count in comparison.counts.items() if count)
    loud = [each for each in comparison.files if each.status not in ("identical", "unchanged")]
    lines = [f"### Visual comparison: {counts or 'nothing to compare'}", ""]
    if not loud:
        return "\n".join([*lines, "Nothing needs your attention.", ""])
    lines += ["| picture | status | what changed | pixels |", "|---|---|---|---|"]
    lines += [_row(each) for each in loud[:MOST_ROWS]]
    if len(loud) > MOST_ROWS:
        lines += ["", f"and {len(loud) - MOST_ROWS} more"]
    return "\n".join([*lines, ""])


def _row(compared: ComparedFile) -> str:
    result = compared.result
    words = compared.error or ("" if result is None else result.caption)
    pixels = ""
    if result is not None and result.diff_pixels is not None and result.diff_ratio is not None:
        pixels = f"{result.diff_pixels:,} ({100 * result.diff_ratio:.3g} %)"
    return f"| {_escaped(compared.name)} | {compared.status} | {_escaped(words)} | {pixels} |"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
