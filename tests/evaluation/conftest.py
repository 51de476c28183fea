"""A small data set of drawn pairs whose facts are known, and a model that answers from a list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

WIDTH, HEIGHT = 96, 64
KINDS = ("color", "drop", "add", "move", "texture")
SENTENCES = {
    "color": ("the large red metal cube became blue", "the big red shiny block turned blue"),
    "texture": ("the large red metal cube became rubber", "the big red shiny block turned matte"),
    "drop": ("the large red metal cube is missing", "the big red shiny block has disappeared"),
    "add": ("the large red metal cube has been added", "the big red shiny block appeared"),
    "move": ("the large red metal cube moved", "the big red shiny block changed its location"),
    "none": ("no change was made", "there is no change"),
}
NEW = {"color": "blue", "texture": "rubber"}
TARGET = {"shape": "cube", "size": "large", "color": "red", "material": "metal"}


def draw(path: Path, box: tuple[int, int, int, int] | None, color: str) -> None:
    image = Image.new("RGB", (WIDTH, HEIGHT), "#8a8a8a")
    if box is not None:
        x, y, width, height = box
        ImageDraw.Draw(image).rectangle((x, y, x + width - 1, y + height - 1), fill=color)
    image.save(path)


def write_split(folder: Path, scenes: int, first: int) -> None:
    folder.mkdir(parents=True)
    lines = []
    for number in range(first, first + scenes):
        kind = KINDS[number % len(KINDS)]
        box = (number % 5 * 16, 16, 16, 16)
        moved = (box[0], 32, 16, 16) if kind == "move" else box
        before = None if kind == "add" else box
        after = None if kind == "drop" else moved
        draw(folder / f"{number}_before.png", before, "red")
        draw(folder / f"{number}_after.png", after, "blue" if kind == "color" else "red")
        draw(folder / f"{number}_same.png", before, "#e00000")
        facts = {"target": TARGET} | ({"new": NEW[kind]} if kind in NEW else {})
        for letter, second, what, told in (("c", "after", kind, facts), ("n", "same", "none", {})):
            changed = letter == "c"
            lines.append(
                {
                    "id": f"{number}{letter}",
                    "before_file_name": f"{number}_before.png",
                    "after_file_name": f"{number}_{second}.png",
                    "captions": list(SENTENCES[what]),
                    "change_type": what,
                    "facts": told,
                    "before_boxes": [list(before)] if changed and before else [],
                    "after_boxes": [list(after)] if changed and after else [],
                }
            )
    (folder / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(scope="session")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 training and 10 validation scenes, two pairs each."""
    folder = tmp_path_factory.mktemp("drawn")
    write_split(folder / "train", 20, 100)
    write_split(folder / "val", 10, 0)
    return folder


@dataclass
class ListedModel:
    """Stands where a Captioner stands: answers every pair from a table by the name of its after image."""

    answers: dict[str, tuple[str, bool, str, np.ndarray]]
    name: str = "listed"
    asked_as: str | None = None  # it is not asked in words
    usage: None = None

    def answer_many(self, pairs: Any, *, options: Any, batch_size: int, keep_errors: bool) -> Iterator[Any]:
        for _, after in pairs:
            caption, changed, kind, heat = self.answers[after.name]
            result = SimpleNamespace(
                caption=caption,
                changed=changed,
                change_type=kind,
                change_score=0.9 if changed else 0.1,
                differences=(),
            )
            yield SimpleNamespace(result=result, heat=heat)


@pytest.fixture
def oracle(data_set: Path) -> ListedModel:
    """Says the first reference, sees the change, and looks at it."""
    answers = {}
    for line in (data_set / "val/metadata.jsonl").read_text().splitlines():
        row = json.loads(line)
        heat = np.full((2, 4, 6), 0.01, dtype=np.float32)
        for side, name in enumerate(("before_boxes", "after_boxes")):
            for x, y, _, _ in row[name]:
                heat[side, y // 16, x // 16] = 1
        kind = row["change_type"]
        answers[row["after_file_name"]] = (row["captions"][0], kind != "none", kind, heat)
    return ListedModel(answers)
