"""Judges `spotchange.comparison` on pages edited by `page_edits.py`: what is caught, named, placed and read.

    python benchmarks/compare_pages.py CASES [--limit 100] [--worst OUT.json]

The true box is the bounds of the differing pixels inside the edited element's old and new rectangles.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from spotchange.comparison import Comparison, ComparisonOptions, compare, read_raster
from spotchange.comparison.layout.regions import around, bounds

# What an honest answer from pixels alone can be called. A removed or hidden thing is gone either way; over another
# flat colour, what came to lie on top cannot be told from a new colour.
ACCEPTED = {
    "text": {"text"},
    "text colour": {"recoloured"},
    "ground colour": {"recoloured"},
    "slight": {"recoloured", "appeared"},
    "font size": {"resized"},
    "size": {"resized"},
    "position": {"moved"},
    "removed": {"removed", "disappeared"},
    "removed block": {"removed", "disappeared"},
    "inserted": {"inserted", "appeared"},
    "inserted block": {"inserted", "appeared"},
    "reordered": {"swapped", "moved"},
    "image": {"replaced"},
    "font weight": {"restyled"},
    "hidden": {"disappeared"},
    "z-order": {"replaced", "recoloured"},
}


def true_box(record: dict[str, Any], mask: np.ndarray) -> tuple[int, int, int, int] | None:
    """Bounds of the differing pixels inside the old and new rectangles of what was edited."""
    inside = np.zeros(mask.shape, bool)
    for key in ("old", "new", "old_other", "new_other"):
        if record.get(key):
            x, y, width, height = record[key]
            inside[max(0, int(y)) : int(np.ceil(y + height)), max(0, int(x)) : int(np.ceil(x + width))] = True
    return bounds(inside & mask)


def iou(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    width = min(one[0] + one[2], other[0] + other[2]) - max(one[0], other[0])
    height = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
    common = max(0, width) * max(0, height)
    return common / (one[2] * one[3] + other[2] * other[3] - common)


def changed_part(before: str, after: str) -> tuple[str, str]:
    """The words that differ, without the words both begin and end with."""
    one, other = before.split(), after.split()
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    return " ".join(one), " ".join(other)


def plain(text: str) -> str:
    return re.sub(r"[^0-9a-z$%.,:/-]", "", text.lower()).strip(".,:")


def read_right(record: dict[str, Any], result: Comparison) -> bool:
    """Whether the words that changed were read, letter by letter, inside the same text on both sides.

    The record knows only the edited element; on the page its words may stand against others without a space.
    """
    truth = tuple(plain(part) for part in changed_part(record["before"], record["after"]))
    for finding in result.findings:
        if finding.text_before is not None and finding.text_after is not None:
            read = plain(finding.text_before), plain(finding.text_after)
            if any(_put(read[0], start, truth) == read[1] for start in _places(read[0], truth[0])):
                return True
    return False


def _places(text: str, part: str) -> list[int]:
    return [start for start in range(len(text) - len(part) + 1) if text.startswith(part, start)]


def _put(text: str, start: int, truth: tuple[str, ...]) -> str:
    """The text with the old words at a place made the new ones."""
    return text[:start] + truth[1] + text[start + len(truth[0]) :]


def read_as_words(record: dict[str, Any], result: Comparison) -> bool:
    """As `read_right`, but the changed words must also be parted from their neighbours as in the record."""
    truth = tuple(plain(part) for part in changed_part(record["before"], record["after"]))
    return any(
        tuple(plain(part) for part in changed_part(finding.text_before, finding.text_after)) == truth
        for finding in result.findings
        if finding.text_before is not None and finding.text_after is not None
    )


def judge(record: dict[str, Any], folder: Path) -> dict[str, Any] | None:
    before, after = (read_raster(folder / f"{record['name']}_{side}.png") for side in ("before", "after"))
    result = compare(before, after)
    if result.identical:
        return None
    box = true_box(record, result.mask)
    scores = []
    for finding in result.findings:
        boxes = (*finding.boxes_before, *finding.boxes_after)
        scores.append((iou(around(boxes), box) if box and boxes else 0.0, finding.kind))
    accepted = ACCEPTED[record["kind"]]
    right = [score for score, kind in scores if kind in accepted]
    return {
        "name": record["name"],
        "kind": record["kind"],
        "changed": result.changed,
        "tolerant": compare(before, after, ComparisonOptions(preset="tolerant", describe=False)).changed,
        "kind_right": bool(right) and (box is None or max(right) > 0.1),
        "iou": max(right, default=max((score for score, _ in scores), default=0.0)),
        "boxed": box is not None,
        "moved_on": _moved_on(record),
        "pushed": _pushed(record),
        "one_push": len(result.findings) == 1 + (before.size != after.size)
        and result.findings[-1].kind in ("inserted", "removed"),
        "read": read_right(record, result) if record["kind"] == "text" else None,
        "read_as_words": read_as_words(record, result) if record["kind"] == "text" else None,
        "findings": [
            (finding.kind, finding.sentence, finding.boxes_before, finding.boxes_after) for finding in result.findings
        ],
        "box": box,
    }


def print_false_alarms(folder: Path) -> None:
    """Pages loaded again, at another device scale and painted another way: how often they are called changed."""
    exact, tolerant = (ComparisonOptions(preset=preset, describe=False, scale=True) for preset in ("exact", "tolerant"))
    firsts = sorted(folder.glob("*_scale1.png"))
    for title, suffix, options in (
        ("reloaded, exact", "again", exact),
        ("reloaded, tolerant", "again", tolerant),
        ("another raster path, exact", "raster", exact),
        ("another raster path, tolerant", "raster", tolerant),
        ("device scale 2 brought to 1, tolerant", "scale2", tolerant),
    ):
        pairs = [(first, first.with_name(first.name.replace("scale1", suffix))) for first in firsts]
        changed = [compare(*pair, options).changed for pair in pairs if pair[1].exists()]
        print(f"false alarms, {title}: {sum(changed)} of {len(changed)}")


def _pushed(record: dict[str, Any]) -> bool:
    """Whether a block came or went and all that moved in view moved by as much: a row, not an item of a grid."""
    return _moved_on(record) and record["followers"] > 0 and record["strays"] == 0


def _moved_on(record: dict[str, Any]) -> bool:
    """Whether a whole block came or went and the element after it moved, wherever it was and whatever else did."""
    push = record.get("push") or 0
    rect = record.get("new") if record["kind"].startswith("inserted") else record.get("old")
    return (
        record["kind"] in ("inserted block", "removed block") and abs(push) >= 4 and rect is not None and rect[3] >= 4
    )


def share(values: list[Any]) -> str:
    values = [value for value in values if value is not None]
    return f"{100 * sum(map(bool, values)) / max(1, len(values)):5.1f} % of {len(values)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--kind")
    parser.add_argument("--details", type=Path, help="write every case's judgement as JSON lines")
    options = parser.parse_args()
    records = [json.loads(line) for line in (options.cases / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
    if options.kind:
        records = [record for record in records if record["kind"] == options.kind]
    judged = []
    unseen = 0
    for record in records[: options.limit]:
        row = judge(record, options.cases)
        unseen += row is None
        if row is not None:
            judged.append(row)
    print(f"{len(judged)} edits that change a pixel, {unseen} that change none")
    print("caught, exact:    ", share([row["changed"] for row in judged]))
    print("caught, tolerant: ", share([row["tolerant"] for row in judged]))
    print("kind right:       ", share([row["kind_right"] for row in judged]))
    print("box IoU >= 0.7:   ", share([row["iou"] >= 0.7 for row in judged if row["boxed"]]))
    print("text read right:  ", share([row["read"] for row in judged if row["kind"] == "text"]))
    print("  parted in words:", share([row["read_as_words"] for row in judged if row["kind"] == "text"]))
    print("one push:         ", share([row["one_push"] for row in judged if row["pushed"]]))
    print("  with grids etc.:", share([row["one_push"] for row in judged if row["moved_on"]]))
    if (options.cases / "reloads").is_dir():
        print_false_alarms(options.cases / "reloads")
    by_kind = defaultdict(list)
    for row in judged:
        by_kind[row["kind"]].append(row)
    for kind, rows in by_kind.items():
        kinds = Counter(row["findings"][0][0] if row["findings"] else "none" for row in rows if not row["kind_right"])
        right, placed = share([r["kind_right"] for r in rows]), share([r["iou"] >= 0.7 for r in rows if r["boxed"]])
        count = np.mean([len(row["findings"]) for row in rows])
        print(f"  {kind:15} kind {right}  box {placed}  findings {count:.1f}  wrong: {dict(kinds)}")
    if options.details:
        options.details.write_text("".join(json.dumps(row) + "\n" for row in judged), encoding="utf-8")


if __name__ == "__main__":
    main()
