"""A comparison of two folders for CI: JUnit XML, which every CI system shows, and Markdown for a pull request."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from spotchange.regression import ComparedFile, FolderComparison
from spotchange.regression.one_pair import DIFFERENT

SUITE = "spotchange compare"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
HEADING = "### Visual comparison"
MOST_ROWS = 50  # a comment has a length limit; the rest is counted
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|])")


def junit_xml(comparison: FolderComparison) -> str:
    """One test case an image: changed, missing and new ones fail, unreadable ones are errors."""
    failures = sum(each.status in DIFFERENT for each in comparison.files)
    totals = {
        "tests": str(len(comparison.files)),
        "failures": str(failures),
        "errors": str(sum(each.status == "failed" for each in comparison.files)),
        "skipped": "0",
    }
    seconds = sum(each.result.seconds for each in comparison.files if each.result is not None)
    root = ElementTree.Element("testsuites", totals | {"name": SUITE, "time": f"{seconds:.3f}"})
    suite = ElementTree.SubElement(root, "testsuite", totals | {"name": SUITE, "time": f"{seconds:.3f}"})
    for each in comparison.files:
        _add_case(suite, each)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ElementTree.Element, compared: ComparedFile) -> None:
    seconds = compared.result.seconds if compared.result is not None else 0.0
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": SUITE, "name": _clean(compared.name), "time": f"{seconds:.3f}"}
    )
    if compared.status == "failed":
        ElementTree.SubElement(case, "error", {"type": "unreadable", "message": _clean(compared.error or "")})
    elif compared.status in DIFFERENT:
        failure = ElementTree.SubElement(case, "failure", {"type": compared.status, "message": _message(compared)})
        failure.text = _details(compared)


def _message(compared: ComparedFile) -> str:
    if compared.result is None:
        return {"missing": "the picture is missing", "new": "the picture is new"}[compared.status]
    return _clean(compared.result.caption)


def _details(compared: ComparedFile) -> str:
    if compared.result is None:
        return _clean(compared.name)
    result = compared.result
    lines = [f"change score {result.change_score:.4f}"]
    if result.diff_pixels is not None:
        lines = [
            f"{result.diff_pixels} pixels differ (ratio {result.diff_ratio:.6f}, largest {result.largest_difference}, "
            f"preset {result.preset})"
        ]
    lines += [f"- {each}" for each in result.differences]
    lines += [f"{each.kind}: {each.sentence}" for each in result.findings]
    lines += [f"{region.image} x,y,w,h = {','.join(map(str, region.box))}" for region in result.regions]
    return _clean("\n".join(lines))


def _clean(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


def markdown_summary(comparison: FolderComparison) -> str:
    """A heading with the counts and a table of what needs attention, for the comment on a pull request."""
    counts = ", ".join(f"{count} {status}" for status, count in comparison.counts.items() if count)
    loud = [each for each in comparison.files if each.status not in ("identical", "unchanged")]
    lines = [f"{HEADING}: {counts or 'nothing to compare'}", ""]
    if not loud:
        return "\n".join([*lines, "Nothing needs your attention.", ""])
    lines += ["| picture | status | what changed | pixels |", "|---|---|---|---|"]
    lines += [_row(each) for each in loud[:MOST_ROWS]]
    if len(loud) > MOST_ROWS:
        lines += ["", f"and {len(loud) - MOST_ROWS} more"]
    return "\n".join([*lines, ""])


def _row(compared: ComparedFile) -> str:
    result = compared.result
    words = compared.error or ("" if result is None else "; ".join(result.differences) or result.caption)
    pixels = ""
    if result is not None and result.diff_pixels is not None and result.diff_ratio is not None:
        pixels = f"{result.diff_pixels:,} ({100 * result.diff_ratio:.3g} %)"
    return f"| {_escaped(compared.name)} | {compared.status} | {_escaped(words)} | {pixels} |"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
