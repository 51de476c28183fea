"""Birds-to-Words: two photographs of birds and paragraphs on how the animals differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from spotchange.data.importers.base import Importer, Problems, SourcePair, find_image, first_existing, read_lines

FILE = "birds-to-words-v1.0.tsv"
COLUMNS = ("img1ObservationURL", "img2ObservationURL", "split", "annN", "description")
_PHOTO = re.compile(r"(\d+)(?:/[a-z]+\.[A-Za-z]+(?:\?.*)?)?/?$")


def read_pairs(source: Path, problems: Problems) -> Iterator[SourcePair]:
    """Paragraphs of one pair are merged, in the order of their numbers. Images are named by iNaturalist photo."""
    path = first_existing(source, (FILE, "birds-to-words-v1.1.tsv"))
    lines = read_lines(path, problems) or []
    header = lines[0].split("\t") if lines else []
    missing = [name for name in COLUMNS if name not in header]
    if lines and missing:
        problems.add(path, f"is of another version: no column {', '.join(missing)}")
        return
    merged: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
    for number, line in enumerate(lines[1:], start=2):
        values = dict(zip(header, line.split("\t"), strict=False))
        photos = [_PHOTO.search(values.get(name, "")) for name in COLUMNS[:2]]
        text = _unquoted(values.get("description", ""))
        split, order = values.get("split", ""), values.get("annN", "")
        if photos[0] is None or photos[1] is None or not text or split not in ("train", "val", "test"):
            problems.add(f"{path}:{number}", "holds no pair with a split and a description")
            continue
        key = (split, photos[0][1], photos[1][1])
        merged.setdefault(key, []).append((int(order) if order.isdigit() else 0, text))
    images = first_existing(source, ("images",))
    for (split, first, second), paragraphs in merged.items():
        yield SourcePair(
            split=split,
            id=f"{first}_{second}",
            before=find_image(images, first),
            after=find_image(images, second),
            captions=tuple(text for _, text in sorted(paragraphs, key=lambda pair: pair[0])),
        )


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].replace('""', '"')
    return " ".join(text.split())


IMPORTER = Importer(
    name="birds-to-words",
    title="Birds-to-Words",
    what="pairs of bird photographs from iNaturalist and about five paragraphs on each, speaking of animal 1 and "
    "animal 2; the main metric is ROUGE-L",
    size="3,347 pairs",
    licence="see the data set's repository for the descriptions; every photograph has its own licence, named on "
    "its iNaturalist page",
    where="Forbes, Kaeser-Chen, Sharma, Belongie: Neural Naturalist, EMNLP 2019; the repository birds-to-words of "
    "google-research-datasets. Photographs are fetched by you, from the addresses in the file",
    layout=f"{FILE}, images/PHOTO.jpg where PHOTO is the number at the end of the photo's address",
    counts=None,
    check="3,347 pairs over all splits, less those whose photograph is gone",
    read_pairs=read_pairs,
)
