"""NABirds: photographs of birds by class, as published; IDC-PCL learns fine differences from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spotchange.data.importers.base import Importer, Problems, SourcePair, read_lines


def read_pairs(source: Path, problems: Problems) -> Iterator[SourcePair]:
    """A row an image, which stands on both sides of it, with its class, numbered from 0 in the order of class ids.

    Only classes that have images count: `classes.txt` also names the groups above them.
    """
    paths = _columns(source / "images.txt", problems)
    training = _columns(source / "train_test_split.txt", problems)
    labels = _columns(source / "image_class_labels.txt", problems)
    names = _columns(source / "classes.txt", problems)
    used = sorted({label for label in labels.values() if label.isdigit()}, key=int)
    numbers = {label: number for number, label in enumerate(used)}
    for image, path in paths.items():
        label = labels.get(image, "")
        if training.get(image) not in ("0", "1") or label not in numbers or label not in names:
            problems.add(source, f"picture {image} ({path}) has no class or no split")
            continue
        class_name = " ".join(names[label].split()).lower()
        yield SourcePair(
            split="train" if training[image] == "1" else "test",
            id=image,
            before=source / "images" / path,
            after=source / "images" / path,
            captions=(class_name,),
            extra={"class_id": numbers[label], "class_name": class_name},
        )


def _columns(path: Path, problems: Problems) -> dict[str, str]:
    """Lines `ID VALUE`."""
    found = {}
    for line in read_lines(path, problems) or []:
        name, _, value = line.strip().partition(" ")
        if not value.strip():
            problems.add(path, f"is of another version: 'ID VALUE' was expected, not {line.strip()!r}")
            continue
        found[name] = value.strip()
    return found


IMPORTER = Importer(
    name="nabirds",
    title="NABirds (pictures by class)",
    what="photographs of 555 kinds of North American birds; a row shows the same picture before and after and names "
    "its class; for cross-task training (recipes/idc_pcl/birds-pretrain.yaml)",
    size="48,562 pictures, 555 classes",
    licence="non-commercial research and education, after agreeing to the terms of the Cornell Lab of Ornithology",
    where="Van Horn et al.: Building a bird recognition app and large scale dataset with citizen scientists, CVPR "
    "2015; the data page of the Cornell Lab of Ornithology",
    layout="images.txt, image_class_labels.txt, train_test_split.txt, classes.txt, images/CLASS/NAME.jpg",
    counts={"train": 23_929, "test": 24_633},
    check="555 classes in the column class_id, from 0 on; there is no validation split",
    read_pairs=read_pairs,
)
