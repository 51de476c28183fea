"""Single images with captions, as Flickr8k publishes them: for learning words before differences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spotchange.data.importers.base import Importer, Problems, SourcePair, first_existing, read_lines

LISTS = {
    "train": "Flickr_8k.trainImages.txt",
    "val": "Flickr_8k.devImages.txt",
    "test": "Flickr_8k.testImages.txt",
}


def read_pairs(source: Path, problems: Problems) -> Iterator[SourcePair]:
    """A row an image, which stands on both sides of it."""
    text = first_existing(source, ("Flickr8k_text", "."))
    images = first_existing(source, ("Flicker8k_Dataset", "Flickr8k_Dataset", "Images", "images"))
    captions_file = text / "Flickr8k.token.txt"
    captions: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(captions_file, problems) or [], start=1):
        name, tab, caption = line.partition("\t")
        name, mark, _ = name.partition("#")
        if not tab or not mark or not caption.strip():
            problems.add(f"{captions_file}:{number}", "is of another version: 'NAME#NUMBER<tab>caption' was expected")
            continue
        captions.setdefault(name.strip(), []).append(" ".join(caption.split()))
    for split, list_name in LISTS.items():
        for name in read_lines(text / list_name, problems) or []:
            name = name.strip()
            if name not in captions:
                problems.add(captions_file, f"has no captions for {name}")
                continue
            yield SourcePair(
                split=split,
                id=Path(name).stem,
                before=images / name,
                after=images / name,
                captions=tuple(captions[name]),
            )


IMPORTER = Importer(
    name="flickr8k",
    title="Flickr8k (single pictures with captions)",
    what="photographs with five captions each; a row shows the same picture before and after, its captions say what "
    "is in it; for cross-task training",
    size="8,000 pictures in the three lists",
    licence="pictures belong to their Flickr users; research and teaching only",
    where="Hodosh, Young, Hockenmaier: Framing Image Description as a Ranking Task, JAIR 2013; on request from the "
    "University of Illinois",
    layout="Flickr8k_text/Flickr8k.token.txt with Flickr_8k.{train,dev,test}Images.txt, Flicker8k_Dataset/NAME.jpg",
    counts={"train": 6_000, "val": 1_000, "test": 1_000},
    check="five captions a row",
    read_pairs=read_pairs,
)
