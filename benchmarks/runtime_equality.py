"""Do both runtimes answer alike? Part of a release: the shipped export against torch in fp32, pair by pair.

    spotchange generate --pairs 7970 --seed 11 --split test --out DIR
    python benchmarks/runtime_equality.py DIR [MORE_DIRS] --results FILE.jsonl [--split test] [--model bundled]

`--results` keeps one line a pair: run the same command again to go on after an interruption, as it takes an hour or
more of two cores. `--part 1/4` looks at every fourth pair, for several processes or machines with a file each; without
data, several `--results` are only summed up.

Prints one JSON object and exits with 1 unless captions agree on 99.9 % of the pairs, scores and heat to 1e-3 and
boxes to one pixel. `--against FOLDER` compares the export of another folder with torch, without a verdict.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spotchange.answering import Answer, load, model_folder
from spotchange.data.metadata import read_rows
from spotchange.pairs import Row

SAME_CAPTIONS, NEAR, PIXEL = 0.999, 1e-3, 1
Difference = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="*")
    parser.add_argument("--split", default="test")
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--against", help="a folder whose ONNX export is compared instead of the model's own")
    parser.add_argument("--results", type=Path, nargs="+", default=[], help="where differences are kept, pair by pair")
    parser.add_argument("--part", default="1/1", help="this part of so many")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()
    known = {each["id"]: each for file in options.results if file.exists() for each in read_lines(file)}
    for found in differences(wanted(options, known), options) if options.data else ():
        known[found["id"]] = found
        if options.results:
            with options.results[0].open("a") as file:
                file.write(json.dumps(found) + "\n")
    if not known:
        raise SystemExit("no pair to look at: give data, or results to sum up")
    summary = summed_up(list(known.values()))
    print(json.dumps(summary))
    sys.exit(0 if summary["agree"] or options.against else 1)


def read_lines(file: Path) -> Iterator[Difference]:
    """What earlier runs found; a last line that was cut off is looked at again."""
    for line in file.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def wanted(options: argparse.Namespace, known: dict[str, Difference]) -> list[tuple[str, Row]]:
    """Pairs of this part that no earlier run has seen."""
    rows = [(f"{folder.name}/{row.id}", row) for folder in options.data for row in read_rows(folder, options.split)]
    part, parts = (int(each) for each in options.part.split("/"))
    return [(name, row) for name, row in rows[: options.limit][part - 1 :: parts] if name not in known]


def differences(rows: list[tuple[str, Row]], options: argparse.Namespace) -> Iterator[Difference]:
    """Both runtimes on the same pairs, batch by batch."""
    pairs = [(row.before_path, row.after_path) for _, row in rows]
    # By its folder: the scene model alone answers, whatever else ships beside it.
    ours = load(options.against or model_folder(options.model), runtime="onnx", threads=options.threads)
    theirs = load(model_folder(options.model), runtime="torch", device="cpu", threads=options.threads)
    answers = (each.answer_many(pairs, batch_size=options.batch_size) for each in (ours, theirs))
    for (name, _), mine, reference in zip(rows, *answers, strict=True):
        yield {"id": name, **compare(mine, reference)}


def compare(ours: Answer, theirs: Answer) -> Difference:
    """How far two answers to one pair are apart."""
    boxes = [np.array([region.box for region in each.result.regions]) for each in (ours, theirs)]
    same_count = len(boxes[0]) == len(boxes[1])
    return {
        "same": ours.result.caption == theirs.result.caption,
        "verdict": ours.result.changed == theirs.result.changed,
        "score": abs(ours.result.change_score - theirs.result.change_score),
        "heat": float(np.abs(ours.heat - theirs.heat).max()) if ours.heat.shape == theirs.heat.shape else 1.0,
        "box": (float(np.abs(boxes[0] - boxes[1]).max()) if boxes[0].size else 0.0) if same_count else float("inf"),
    }


def summed_up(found: list[Difference]) -> dict[str, Any]:
    """The worst of all pairs, and whether that is near enough."""
    worst = {name: max(each[name] for each in found) for name in ("score", "heat", "box")}
    same = float(np.mean([each["same"] for each in found]))
    return {
        "pairs": len(found),
        "same_captions": same,
        "same_verdicts": float(np.mean([each["verdict"] for each in found])),
        "largest_score_difference": worst["score"],
        "largest_heat_difference": worst["heat"],
        "largest_box_difference": worst["box"],
        "pairs_with_other_boxes": sum(each["box"] > PIXEL for each in found),
        "other_captions": [each["id"] for each in found if not each["same"]][:20],
        "agree": same >= SAME_CAPTIONS and max(worst["score"], worst["heat"]) <= NEAR and worst["box"] <= PIXEL,
    }


if __name__ == "__main__":
    main()
