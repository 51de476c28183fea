"""Images in folders by class, as CUB-200-2011 publishes them: for learning fine differences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spotchange.data.importers.base import Importer, Problems, SourcePair, first_existing, read_lines


def read_pairs(source: Path, problems: Problems) -> Iterator[SourcePair]:
    """A row an image, which stands on both sides of it, with its class; captions are Reed's or the class's name."""
    paths = _numbered(source / "images.txt", problems)
    training = _numbered(source / "train_test_split.txt", problems)
    labels = _numbered(source / "image_class_labels.txt", problems)
    classes = _numbered(source / "classes.txt", problems)
    texts = first_existing(source, ("text_c10", "text"))
    for number, name in paths.items():
        class_id = labels.get(number, "")
        if training.get(number) not in ("0", "1") or class_id not in classes:
            problems.add(source, f"picture {number} ({name}) has no class or no split")
            continue
        class_name = " ".join(classes[class_id].partition(".")[2].replace("_", " ").split()).lower()
        yield SourcePair(
            split="train" if training[number] == "1" else "test",
            id=number,
            before=source / "images" / name,
            after=source / "images" / name,
            captions=_captions(texts / Path(name).with_suffix(".txt"), problems) or (class_name,),
            extra={"class_id": int(class_id), "class_name": class_name},
        )


def _numbered(path: Path, problems: Problems) -> dict[str, str]:
    """Lines `NUMBER VALUE`."""
    found = {}
    for line in read_lines(path, problems) or []:
        number, _, value = line.strip().partition(" ")
        if not number.isdigit() or not value.strip():
            problems.add(path, f"is of another version: 'NUMBER VALUE' was expected, not {line.strip()!r}")
            continue
        found[number] = value.strip()
    return found


def _captions(path: Path, problems: Problems) -> tuple[str, ...]:
    """Captions published apart, where they are there."""
    return tuple(" ".join(line.split()) for line in read_lines(path, problems) or []) if path.is_file() else ()


IMPORTER = Importer(
    name="cub",
    title="CUB-200-2011 (pictures by class)",
    what="photographs of 200 kinds of birds; a row shows the same picture before and after and names its class; with "
    "the captions of Reed et al. (text_c10) beside it, those are its captions; for cross-task training",
    size="11,788 pictures, 200 classes",
    licence="non-commercial research and education; pictures belong to their photographers",
    where="Wah, Branson, Welinder, Perona, Belongie: The Caltech-UCSD Birds-200-2011 Dataset, 2011; the data page of "
    "the Caltech vision group. Captions: Reed, Akata, Lee, Schiele: Learning Deep Representations of Fine-Grained "
    "Visual Descriptions, CVPR 2016",
    layout="images.txt, image_class_labels.txt, train_test_split.txt, classes.txt, images/CLASS/NAME.jpg, and "
    "text_c10/CLASS/NAME.txt where you have captions",
    counts={"train": 5_994, "test": 5_794},
    check="200 classes in the column class_name; there is no validation split",
    read_pairs=read_pairs,
)
