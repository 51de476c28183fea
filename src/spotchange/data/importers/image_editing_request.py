"""Image-Editing-Request: photographs before and after an edit, with what was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spotchange.data.importers.base import Importer, Problems, SourcePair, first_existing, read_json, sentences

FILES = {"train": "train.json", "val": "valid.json", "test": "test.json"}


def read_pairs(source: Path, problems: Problems) -> Iterator[SourcePair]:
    """One pair a row; rows that show the same two images stay apart, as the papers count them."""
    images = first_existing(source, ("images", "img"))
    for split, name in FILES.items():
        path = source / name
        for place, row in enumerate(read_json(path, problems, list) or []):
            values = row if isinstance(row, dict) else {}
            said = sentences(values.get("sents"))
            names = [str(values.get(key) or "") for key in ("uid", "img0", "img1")]
            if not said or not all(names):
                problems.add(path, f"is of another version: row {place} lacks 'uid', 'img0', 'img1' or 'sents'")
                continue
            yield SourcePair(split=split, id=names[0], before=images / names[1], after=images / names[2], captions=said)


IMPORTER = Importer(
    name="image-editing-request",
    title="Image-Editing-Request",
    what="photographs and their edited versions from editing forums, with the request in words",
    size="3,939 pairs",
    licence="its repository states none, ask the authors; the pictures belong to those who posted them",
    where="Tan, Dernoncourt, Lin, Bui, Bansal: Expressing Visual Relationships via Language, ACL 2019; the data link "
    "of the paper's code repository, VisualRelationships",
    layout="train.json, valid.json, test.json, images/",
    counts={"train": 3_061, "val": 383, "test": 495},
    check="1 / 3 / 3 sentences a pair",
    read_pairs=read_pairs,
)
