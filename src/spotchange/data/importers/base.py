"""What importers share: pairs as a published layout names them, problems collected, annotation files read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spotchange.files import load_json, read_input
from spotchange.images import SUFFIXES
from spotchange.language import says_no_change
from spotchange.pairs import PixelBox


@dataclass(frozen=True, kw_only=True)
class SourcePair:
    """A pair where its publisher put it."""

    split: str
    id: str
    before: Path
    after: Path
    captions: tuple[str, ...]
    """None at all: the pair stands apart, nothing is learnt from it, and some protocols count it."""
    change_type: str | None = None
    scene_id: int | str | None = None
    before_boxes: tuple[PixelBox, ...] | None = None
    after_boxes: tuple[PixelBox, ...] | None = None
    mask: Path | None = None
    extra: dict[str, Any] = field(default_factory=dict)


class Problems:
    """What is wrong with a source; every one can be refused, or skipped and counted."""

    def __init__(self, on_problem: Callable[[str], None] | None = None) -> None:
        self.count = 0
        self.notes: list[str] = []
        self._on_problem = on_problem

    def add(self, where: object, reason: str) -> None:
        """Something that must not be in a sound copy of the set."""
        self.count += 1
        if self._on_problem is not None:
            self._on_problem(f"{where}: {reason}")

    def note(self, text: str) -> None:
        """Something the published set itself is known for: said, but no reason to refuse it."""
        self.notes.append(text)


PairReader = Callable[[Path, Problems], Iterator[SourcePair]]


@dataclass(frozen=True, kw_only=True)
class Importer:
    """A published data set: what it is, and how its files become pairs."""

    name: str
    title: str
    what: str
    size: str
    licence: str
    where: str
    layout: str
    counts: dict[str, int] | None
    """Rows of each split after import of the whole set; None where they are not known."""
    check: str
    """How to see that an import is whole."""
    read_pairs: PairReader


def read_json(path: Path, problems: Problems, expected: type[dict[str, Any]] | type[list[Any]]) -> Any:
    """An annotation file, or None with the problem noted."""
    try:
        content = load_json(read_input(path))
    except FileNotFoundError:
        problems.add(path, "does not exist")
        return None
    except (OSError, ValueError, RecursionError) as error:
        problems.add(path, f"cannot be read as JSON ({' '.join(str(error).split())})")
        return None
    if not isinstance(content, expected):
        problems.add(path, f"is of another version: {'an object' if expected is dict else 'a list'} was expected")
        return None
    return content


def read_lines(path: Path, problems: Problems) -> list[str] | None:
    """Lines of a text file without blank ones, or None with the problem noted."""
    try:
        lines = read_input(path).splitlines()
    except FileNotFoundError:
        problems.add(path, "does not exist")
        return None
    except (OSError, ValueError) as error:
        problems.add(path, f"cannot be read as text ({' '.join(str(error).split())})")
        return None
    return [line for line in lines if line.strip()]


def first_existing(folder: Path, names: tuple[str, ...]) -> Path:
    """The first of several usual names that is there; the first name if none is."""
    return next((folder / name for name in names if (folder / name).exists()), folder / names[0])


def find_image(folder: Path, stem: str, suffixes: tuple[str, ...] = SUFFIXES) -> Path:
    """The image of that stem in any usual format; with the first suffix if none is there."""
    for suffix in suffixes:
        for spelled in (suffix, suffix.upper()):
            if (folder / f"{stem}{spelled}").is_file():
                return folder / f"{stem}{spelled}"
    return folder / f"{stem}{suffixes[0]}"


def sentences(value: Any) -> tuple[str, ...] | None:
    """A list of texts with blank ones left out, or None if it is something else."""
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        return None
    return tuple(" ".join(text.split()) for text in value if text.strip())


def all_deny(captions: tuple[str, ...]) -> bool:
    """Whether every sentence says that nothing changed."""
    return bool(captions) and all(map(says_no_change, captions))


def read_splits(path: Path, problems: Problems) -> dict[str, list[int]]:
    """A file `{"train": [numbers], "val": ..., "test": ...}`."""
    content = read_json(path, problems, dict) or {}
    splits: dict[str, list[int]] = {}
    for split in ("train", "val", "test"):
        numbers = content.get(split)
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            if content:
                problems.add(path, f"is of another version: no list of numbers for '{split}'")
            continue
        splits[split] = numbers
    return splits
