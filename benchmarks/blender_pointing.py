"""Does the heat map point at what changed in Blender's images? Their true masks come from our renderer's ids.

    python benchmarks/blender_pointing.py [--model bundled] [--scenes FOLDER]

FOLDER holds Blender's images and `scenes.jsonl`, as for `fidelity.py`. Prints the share over all pairs and over the
second half by id, which no constant was ever fitted on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import spotchange
from fidelity import DEFAULT, batch_of, read_rows
from spotchange.data.metadata import read_manifest
from spotchange.evaluation.pointing import JUDGED_SIDES, score_image
from spotchange.scene import AFTER, BEFORE
from spotchange.scenes.rendering.renderer import render

SIZE = (480, 320)


def changed_slots(scene: dict[str, Any]) -> tuple[int | None, int | None]:
    """Where the changed object stands in the lists of before and of after."""
    found = []
    for own, other in (("before", "after"), ("after", "before")):
        slots = [slot for slot, thing in enumerate(scene[own]) if thing not in scene[other]]
        found.append(slots[0] if slots else None)
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--scenes", type=Path, default=DEFAULT / "data/blender-clevr-dev")
    arguments = parser.parse_args()
    scenes = read_rows(arguments.scenes)
    ids = np.asarray(
        render(batch_of(scenes), width=SIZE[0], height=SIZE[1], device="cpu", views=(BEFORE, AFTER), quality="fast").ids
    )
    rows = {row.id: row for row in read_manifest(arguments.scenes / "metadata.jsonl") if row.change_type != "none"}
    captioner = spotchange.load(arguments.model)
    kept = [rows[f"{scene['id']}c"] for scene in scenes]
    answers = captioner.answer_many([(row.before_path, row.after_path) for row in kept])
    inside = []
    for number, (scene, row, answer) in enumerate(zip(scenes, kept, answers, strict=True)):
        slots = changed_slots(scene)
        judged = []
        for side in JUDGED_SIDES.get(row.change_type or "", (0, 1)):
            slot = slots[side]
            if slot is not None:
                judged.append(score_image(answer.heat[side], ids[number, side] == slot + 1)[0])
        inside.append(all(judged))
    half = len(inside) // 2
    print(json.dumps({"pairs": len(inside), "pointing": round(float(np.mean(inside)), 4),
                      "second half": round(float(np.mean(inside[half:])), 4)}))  # fmt: skip


if __name__ == "__main__":
    main()
