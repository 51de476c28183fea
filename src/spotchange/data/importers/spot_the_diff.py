"""Spot-the-Diff: street scenes from fixed cameras, minutes apart, with sentences on every difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spotchange.data.importers.base import (
    Importer,
    Problems,
    SourcePair,
    find_image,
    first_existing,
    read_json,
    sentences,
)


def read_pairs(source: Path, problems: Problems) -> Iterator[SourcePair]:
    """Rows of one image pair are merged: the published files hold up to three annotators' rows a pair."""
    images = first_existing(source, ("images", "resized_images"))
    for split in ("train", "val", "test"):
        path = first_existing(source, (f"{split}.json", f"annotations/{split}.json"))
        merged: dict[str, list[str]] = {}
        for place, row in enumerate(read_json(path, problems, list) or []):
            said = sentences(row.get("sentences")) if isinstance(row, dict) else None
            number = row.get("img_id") if isinstance(row, dict) else None
            if said is None or not isinstance(number, str | int) or not str(number).strip():
                problems.add(path, f"is of another version: row {place} holds no 'img_id' and 'sentences'")
                continue
            merged.setdefault(str(number), []).extend(said)
        wordless = sum(not said for said in merged.values())
        if wordless:
            problems.note(
                f"{path.name}: {wordless} of {len(merged):,} pairs have only empty sentences; nothing is learnt from "
                "them, and the protocols spot-the-diff-* score them 0, as published"
            )
        for number, collected in merged.items():
            yield SourcePair(
                split=split,
                id=number,
                before=find_image(images, number, (".png", ".jpg")),
                after=find_image(images, f"{number}_2", (".png", ".jpg")),
                captions=tuple(collected),
            )


IMPORTER = Importer(
    name="spot-the-diff",
    title="Spot-the-Diff",
    what="pairs of frames of surveillance cameras; one sentence for each difference, by one to three people",
    size="11,329 distinct pairs in the published files, 11,281 of them with sentences",
    licence="its repository states none, ask the authors; the frames come from the VIRAT video data set "
    "and follow its terms",
    where="Jhamtani, Berg-Kirkpatrick: Learning to Describe Differences Between Pairs of Similar Images, EMNLP 2018; "
    "the authors' repository spot-the-diff",
    layout="train.json, val.json, test.json (or in annotations/), images/ID.png and images/ID_2.png (or in "
    "resized_images/)",
    counts={"train": 8_529, "val": 1_489, "test": 1_263},
    check="8,566 / 1,493 / 1,270 distinct pairs, of which 37 / 4 / 7 have only empty sentences and stand apart in "
    "SPLIT/wordless.jsonl",
    read_pairs=read_pairs,
)
