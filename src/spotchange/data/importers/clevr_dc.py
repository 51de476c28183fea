"""CLEVR-DC: scenes seen from wildly different places before and after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spotchange.data.importers.base import (
    Importer,
    Problems,
    SourcePair,
    all_deny,
    find_image,
    first_existing,
    read_json,
    read_splits,
    sentences,
)
from spotchange.data.importers.clevr_change import read_types


def read_pairs(source: Path, problems: Problems) -> Iterator[SourcePair]:
    """One pair a scene. Later papers pad numbers to six digits and rename folders; both spellings are read."""
    captions_file = first_existing(source, ("captions.json", "change_captions.json"))
    captions = read_json(captions_file, problems, dict) or {}
    by_number = {key.partition(".")[0].lstrip("0") or "0": value for key, value in captions.items()}
    before_folder = first_existing(source, ("bef", "images"))
    after_folder = first_existing(source, ("aft", "sc_images"))
    mapping = source / "type_mapping.json"
    types = read_types(mapping, problems) if mapping.is_file() else {}
    for split, numbers in read_splits(first_existing(source, ("split.json", "splits.json")), problems).items():
        for number in numbers:
            said = sentences(by_number.get(str(number)))
            if not said:
                problems.add(captions_file, f"has no captions for scene {number}")
                continue
            yield SourcePair(
                split=split,
                id=str(number),
                before=_image(before_folder, number),
                after=_image(after_folder, number),
                captions=said,
                change_type="none" if all_deny(said) else types.get(number, "change"),
                scene_id=number,
            )


def _image(folder: Path, number: int) -> Path:
    padded = find_image(folder, f"{number:06d}", (".png",))
    return padded if padded.is_file() else find_image(folder, str(number), (".png",))


IMPORTER = Importer(
    name="clevr-dc",
    title="CLEVR-DC",
    what="rendered scenes as in CLEVR-Change, but the camera moves to a random place; six actions, one of them none",
    size="48,000 pairs, 96,000 pictures",
    licence="its repository states none; ask the authors",
    where="Kim, Kim, Lee, Park, Kim: Viewpoint-Agnostic Change Captioning with Cycle Consistency, ICCV 2021; the "
    "authors' repository clevr-dc",
    layout="bef/N.png, aft/N.png, captions.json, split.json (or images, sc_images, change_captions.json, splits.json); "
    "type_mapping.json where you have it",
    counts={"train": 40_800, "val": 2_400, "test": 4_800},
    check="a sixth of each split's pairs have change type none",
    read_pairs=read_pairs,
)
