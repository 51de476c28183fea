"""LEVIR-CC: satellite images years apart with five sentences on what was built, torn down or grew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spotchange.data.importers.base import (
    Importer,
    Problems,
    SourcePair,
    all_deny,
    first_existing,
    read_json,
    read_lines,
    sentences,
)
from spotchange.files import load_json, read_input

_MARKS = {"<START>", "<END>", "<NULL>", "<UNK>", "."}


def read_pairs(source: Path, problems: Problems) -> Iterator[SourcePair]:
    """From the caption file, or, where that is not there, from the token files that training code makes of it."""
    captions = source / "LevirCCcaptions.json"
    tokens = source / "tokens"
    if not captions.exists() and tokens.is_dir():
        yield from _from_tokens(source, tokens, problems)
    else:
        yield from _from_captions(source, captions, problems)


def _from_captions(source: Path, path: Path, problems: Problems) -> Iterator[SourcePair]:
    content = read_json(path, problems, dict)
    if content is None:
        return
    images = content.get("images")
    if not isinstance(images, list):
        problems.add(path, "is of another version: no list 'images'")
        return
    for place, entry in enumerate(images):
        values: dict[str, Any] = entry if isinstance(entry, dict) else {}
        said = sentences(
            [each.get("raw") if isinstance(each, dict) else None for each in values.get("sentences") or []]
        )
        split, name, flag = values.get("split"), values.get("filename"), values.get("changeflag")
        if not said or split not in ("train", "val", "test") or not isinstance(name, str):
            problems.add(path, f"is of another version: image {place} lacks 'split', 'filename' or 'sentences'")
            continue
        changed = bool(flag) if isinstance(flag, int) else not all_deny(said)
        yield _pair(source, split, name, tuple(caption.strip(" .") for caption in said), changed)


def _from_tokens(source: Path, tokens: Path, problems: Problems) -> Iterator[SourcePair]:
    for split in ("train", "val", "test"):
        names: dict[str, None] = {}  # a list that says an image once a sentence, as NAME.png-3
        for line in read_lines(source / f"{split}.txt", problems) or []:
            names.setdefault(line.strip().partition(".png")[0] + ".png")
        for name in names:
            path = tokens / (Path(name).stem + ".txt")
            try:
                lists = load_json(read_input(path))
                said = tuple(" ".join(word for word in words if word not in _MARKS) for words in lists)
            except FileNotFoundError:
                problems.add(path, "does not exist")
                continue
            except (OSError, ValueError, TypeError):
                problems.add(path, "is of another version: lists of words were expected")
                continue
            if not any(said):
                problems.add(path, "holds no sentence")
                continue
            yield _pair(source, split, name, tuple(filter(None, said)), not all_deny(said))


def _pair(source: Path, split: str, name: str, captions: tuple[str, ...], changed: bool) -> SourcePair:
    folder = first_existing(source, (f"images/{split}", split))
    mask = folder / "label" / name  # published with LEVIR-MCI, the same pairs with masks
    return SourcePair(
        split=split,
        id=Path(name).stem,
        before=folder / "A" / name,
        after=folder / "B" / name,
        captions=captions,
        change_type="change" if changed else "none",
        mask=mask if mask.is_file() else None,
    )


IMPORTER = Importer(
    name="levir-cc",
    title="LEVIR-CC",
    what="satellite pictures of the same place years apart, 256x256; half of the pairs without a change worth a word",
    size="10,077 pairs, 50,385 sentences",
    licence="academic use only",
    where="Liu, Zhao, Chen, Zou, Shi: Remote Sensing Image Change Captioning With Dual-Branch Transformers, IEEE TGRS "
    "2022; the authors' repository LEVIR-CC-Dataset",
    layout="LevirCCcaptions.json (or tokens/NAME.txt with train.txt, val.txt, test.txt), images/SPLIT/A/NAME.png, "
    "images/SPLIT/B/NAME.png, and images/SPLIT/label/NAME.png where you have masks",
    counts={"train": 6_815, "val": 1_333, "test": 1_929},
    check="five captions a pair; change types change and none",
    read_pairs=read_pairs,
)
