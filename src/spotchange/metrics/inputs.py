"""Reading captions and references from the files people have: JSON, JSON lines, COCO annotations and results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from spotchange.errors import InputError
from spotchange.files import load_json, read_input

NAMED_IDS = 5  # how many ids an error message lists before it says "and N more"


def read_predictions(path: str | PathLike[str], *, errors: dict[str, str] | None = None) -> dict[str, str]:
    """Read one caption an id: `{id: caption}`, JSON lines with `id` and `caption`, or a COCO result list.

    Lines that carry an error instead of a caption are refused, unless `errors` is there to take them.
    """
    path = Path(path)
    predictions: dict[str, str] = {}
    for name, value in _entries(path, ("caption",), errors):
        if name in predictions:
            raise InputError(f"{path}: id {name!r} has more than one caption")
        if isinstance(value, list) and len(value) == 1:  # the shape pycocoevalcap itself takes
            value = value[0]
        if not isinstance(value, str):
            raise InputError(f"{path}: the caption of id {name!r} is {_kind(value)}, not text")
        predictions[name] = value
    if not predictions and not errors:
        raise InputError(f"{path}: there are no captions in it")
    return predictions


def read_results(path: str | PathLike[str], *, errors: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Read captions with whatever else stands in their rows, such as the verdicts of `spotchange caption`.

    A plain `{id: caption}` file gives rows with a caption only.
    """
    captions = read_predictions(path, errors=errors)
    content = _load(Path(path))
    rows = content.get("annotations", []) if isinstance(content, dict) else content
    known = {_identity(Path(path), row, number): row for number, row in enumerate(rows, 1)}
    return {name: {**known.get(name, {}), "caption": caption} for name, caption in captions.items()}


def read_references(path: str | PathLike[str]) -> dict[str, list[str]]:
    """Read the references of each id: `{id: [text]}`, JSON lines with `id` and `captions`, or COCO annotations.

    Lines with a single `caption` add up by id, as in COCO files. An id may come out with no references:
    `match_ids` decides whether that matters.
    """
    path = Path(path)
    references: dict[str, list[str]] = {}
    whole: set[str] = set()  # ids whose references came as one list
    for name, value in _entries(path, ("captions", "references", "caption")):
        if name in whole or (name in references and isinstance(value, list)):
            raise InputError(f"{path}: id {name!r} stands in it more than once")
        if isinstance(value, _Single):
            references.setdefault(name, [])
            texts = [value.text]
        elif isinstance(value, list):
            whole.add(name)
            texts = value
        else:
            raise InputError(f"{path}: the references of id {name!r} are {_kind(value)}, not a list of texts")
        for text in texts:
            if not isinstance(text, str):
                raise InputError(f"{path}: a reference of id {name!r} is {_kind(text)}, not text")
        references.setdefault(name, []).extend(texts)
    if not references:
        raise InputError(f"{path}: there are no references in it")
    return references


def match_ids(
    predictions: Mapping[str, str], references: Mapping[str, list[str]], *, allow_missing: bool = False
) -> tuple[dict[str, str], dict[str, list[str]], list[str]]:
    """Bring both sides to the same ids, in the order of the references.

    Args:
        predictions: caption by id.
        references: references by id.
        allow_missing: keep the ids both have instead of refusing.

    Returns:
        Predictions, references, and notes that say how many ids were left out.

    Raises:
        InputError: ids differ, or an id has no reference, and `allow_missing` is off; or nothing is left.
    """
    bare = [name for name, texts in references.items() if not texts]
    problems = [
        ("has no caption", "have no caption", [name for name in references if name not in predictions]),
        (
            "is not in the references",
            "are not in the references",
            [name for name in predictions if name not in references],
        ),
        ("has no reference", "have no reference", [name for name in bare if name in predictions]),
    ]
    found = [f"{_name(ids)} {one if len(ids) == 1 else many}" for one, many, ids in problems if ids]
    if found and not allow_missing:
        raise InputError("; ".join(found), hint="--allow-missing scores what both sides have")
    kept = [name for name, texts in references.items() if texts and name in predictions]
    if not kept:
        raise InputError("no id has both a caption and a reference")
    notes = [f"scored {len(kept)} ids that both sides have; {note}" for note in ["; ".join(found)] if note]
    return {name: predictions[name] for name in kept}, {name: list(references[name]) for name in kept}, notes


class _Single:
    """One reference given on its own, to be added to the others of its id."""

    def __init__(self, text: Any) -> None:
        self.text = text


def _entries(path: Path, text_keys: tuple[str, ...], errors: dict[str, str] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield (id, value) from any of the accepted shapes, in the order of the file."""
    content = _load(path)
    if isinstance(content, dict) and isinstance(content.get("annotations"), list):
        yield from _annotations(path, content, text_keys)
    elif isinstance(content, dict):
        yield from ((name, value) for name, value in content.items())
    elif isinstance(content, list):
        yield from _rows(path, content, text_keys, errors)
    else:
        raise InputError(f"{path}: expected an object or a list, found {_kind(content)}")


def _annotations(path: Path, content: dict[str, Any], text_keys: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    yield from _rows(path, content["annotations"], text_keys)
    if "captions" not in text_keys:
        return
    named = {_identity(path, row, number) for number, row in enumerate(content["annotations"], 1)}
    images = content.get("images") or []
    if not isinstance(images, list):
        raise InputError(f"{path}: 'images' is {_kind(images)}, not a list")
    for number, image in enumerate(images, 1):
        name = _identity(path, image, number)
        if name not in named:  # an image without any annotation is an id without references
            yield name, []


def _rows(
    path: Path, rows: Iterable[Any], text_keys: tuple[str, ...], errors: dict[str, str] | None = None
) -> Iterator[tuple[str, Any]]:
    for number, row in enumerate(rows, 1):
        name = _identity(path, row, number)
        if "error" in row and "caption" not in row:
            if errors is not None:
                errors[name] = str(row["error"])
                continue
            told = f"{path}: id {name!r} carries an error instead of a caption: {row['error']}"
            raise InputError(told, hint="caption it again; --allow-missing of `score` leaves such lines out")
        key = next((key for key in text_keys if key in row), None)
        if key is None:
            raise InputError(f"{path}: id {name!r} has no {' or '.join(repr(key) for key in text_keys)}")
        yield name, _Single(row[key]) if key == "caption" and "captions" in text_keys else row[key]


def _identity(path: Path, row: Any, number: int) -> str:
    if not isinstance(row, dict):
        raise InputError(f"{path}: entry {number} is {_kind(row)}, not an object")
    # In COCO annotations "id" numbers the sentence and "image_id" names what it describes.
    name = row["image_id"] if "image_id" in row else row.get("id")
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise InputError(f"{path}: entry {number} has no usable 'id' or 'image_id'")
    return str(name)


def _load(path: Path) -> Any:
    try:
        text = read_input(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it {error}"
        raise InputError(f"cannot read {path}: {reason}") from error
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        try:
            return load_json(text, object_pairs_hook=_unique_keys)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data":  # several values in a row: JSON lines under another name
                raise InputError(f"{path}: not valid JSON ({error})") from error
        except _DuplicateKeyError as error:
            raise InputError(f"{path}: id {error.args[0]!r} stands in it more than once") from error
    rows = []
    # Only "\n" ends a line: splitlines() would also break at U+2028 inside a caption.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(load_json(line, object_pairs_hook=_unique_keys))
            except json.JSONDecodeError as error:
                raise InputError(f"{path}, line {number}: not valid JSON ({error.msg})") from error
            except _DuplicateKeyError as error:
                raise InputError(f"{path}, line {number}: {error.args[0]!r} stands in it more than once") from error
    return rows


class _DuplicateKeyError(Exception):
    pass


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Python keeps the last of duplicate keys in silence; a score must not."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        raise _DuplicateKeyError(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return found


def _name(ids: list[str]) -> str:
    listed = ", ".join(repr(name) for name in ids[:NAMED_IDS])
    more = f" and {len(ids) - NAMED_IDS} more" if len(ids) > NAMED_IDS else ""
    return f"{'id' if len(ids) == 1 else f'{len(ids)} ids:'} {listed}{more}"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
