"""Do both runtimes answer alike? Part of a release: the shipped export against torch in fp32, pair by pair.

    spotchange generate --pairs 7970 --seed 11 --split test --out DIR
    python benchmarks/runtime_equality.py DIR --split test [--model bundled] [--limit 200] [--threads 2]

Prints one JSON object and exits with 1 unless captions agree on 99.9 % of the pairs, scores and heat to 1e-3 and
boxes to one pixel. `--against FOLDER` compares another export of the same weights (int8) with torch, without a verdict.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from spotchange.answering import Answer, load
from spotchange.data.metadata import read_rows

SAME_CAPTIONS, NEAR, PIXEL = 0.999, 1e-3, 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--against", help="a folder whose ONNX export is compared instead of the model's own")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()
    rows = list(read_rows(options.data, options.split))[: options.limit]
    pairs = [(row.before_path, row.after_path) for row in rows]
    ours = load(options.against or options.model, runtime="onnx", threads=options.threads)
    theirs = load(options.model, runtime="torch", device="cpu", threads=options.threads)
    found = [
        compare(*both)
        for both in zip(
            ours.answer_many(pairs, batch_size=options.batch_size),
            theirs.answer_many(pairs, batch_size=options.batch_size),
            strict=True,
        )
    ]
    summary = {
        "pairs": len(found),
        "same_captions": float(np.mean([each["same"] for each in found])),
        "same_verdicts": float(np.mean([each["verdict"] for each in found])),
        "largest_score_difference": max(each["score"] for each in found),
        "largest_heat_difference": max(each["heat"] for each in found),
        "largest_box_difference": max(each["box"] for each in found),
        "pairs_with_other_boxes": sum(each["box"] > PIXEL for each in found),
        "other_captions": [row.id for row, each in zip(rows, found, strict=True) if not each["same"]][:20],
    }
    print(json.dumps(summary))
    agree = (
        summary["same_captions"] >= SAME_CAPTIONS
        and summary["largest_score_difference"] <= NEAR
        and summary["largest_heat_difference"] <= NEAR
        and summary["largest_box_difference"] <= PIXEL
    )
    sys.exit(0 if agree or options.against else 1)


def compare(ours: Answer, theirs: Answer) -> dict[str, float]:
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


if __name__ == "__main__":
    main()
