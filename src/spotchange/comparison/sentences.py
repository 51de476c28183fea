"""The words of a comparison: counts, sizes, and the summary of findings."""

from __future__ import annotations

from collections.abc import Sequence

from spotchange.comparison.result import Finding
from spotchange.comparison.verdict import Verdict

NAMED = 3  # findings the summary names


def summary_of(findings: Sequence[Finding], *, changed: bool, verdict: Verdict) -> str:
    """At most three findings and how many more; without findings, the counts."""
    if verdict.identical:
        return "the pictures are identical"
    count = verdict.diff_pixels
    counted = f"{pixels(count)} ({share(count / verdict.counted.size)})"
    if not changed and findings:
        return "; ".join(["the content is the same", *(finding.sentence for finding in findings[:NAMED])])
    if not changed:
        if not count:
            beyond = "outside the ignored regions" if not verdict.differing.any() else "beyond the tolerance"
            return f"no pixel differs {beyond}"
        return f"no change: {counted} {'differs' if count == 1 else 'differ'}, within the tolerance"
    if not findings:
        return f"{counted} {'differs' if count == 1 else 'differ'}"
    named = [finding.sentence for finding in findings[:NAMED]]
    more = len(findings) - len(named)
    if more:
        named.append(f"and {more} more {'change' if more == 1 else 'changes'}")
    return "; ".join(named)


def pixels(count: int) -> str:
    """A number of pixels in words."""
    return f"{count:,} pixel" + ("" if count == 1 else "s")


def share(ratio: float) -> str:
    """A share as per cent, small ones not rounded to nothing."""
    percent = ratio * 100
    return f"{percent:.3g} %" if percent >= 0.01 else "less than 0.01 %"
