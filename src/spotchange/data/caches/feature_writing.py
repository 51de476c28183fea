"""Writes feature folders part by part, so that a run that stopped goes on with the first part it has not written.

`parts.jsonl` beside the features names every part that is whole, with its checksum, and what they are all made from.
Whoever goes on checks them, cuts away what comes after the last whole one, and adds the rest. It goes when the folder
is finished.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from spotchange.data.caches.features import FACTS, FEATURES, ROWS, FeatureFacts, FeatureRow
from spotchange.errors import DataError, InputError
from spotchange.files import load_json, write_text
from spotchange.storage import Outgoing

PARTS = "parts.jsonl"
Features = np.ndarray[Any, Any]


class FeatureWriter:
    """One feature folder on its way; `parts` and `images` say how much of it is there."""

    def __init__(self, outgoing: Outgoing, facts: FeatureFacts, *, key: str = "", labels: Sequence[str] = ()) -> None:
        """Begin, or go on where the same key left off.

        Args:
            outgoing: the folder.
            facts: what it holds.
            key: what the features are made from; parts of another key are made again.
            labels: of the parts that will come, in order.
        """
        self.outgoing, self.facts = outgoing, facts
        if (outgoing.there / FACTS).exists():
            raise InputError(f"{outgoing.there} already holds features", hint="remove it, or choose another folder")
        self.parts = self.images = self.rows = 0
        self._folder = outgoing.here
        head = {"key": key, "facts": asdict(facts)}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._go_on(json.loads(json.dumps(head)), labels)
        except OSError as error:
            raise self._refused(error) from error

    def add(self, features: Features, rows: Sequence[FeatureRow], label: str = "") -> None:
        """Write features (images, cells, channels) and rows that number images overall, then name the part."""
        content = np.ascontiguousarray(features, dtype=np.float16).tobytes()
        lines = "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows).encode()
        part = {"label": label, "pictures": len(features), "rows": len(rows), "bytes": len(content)}
        part |= {"row_bytes": len(lines), "sha256": _digest(content, lines)}
        try:
            for name, added in ((FEATURES, content), (ROWS, lines), (PARTS, json.dumps(part).encode() + b"\n")):
                with (self._folder / name).open("ab") as file:
                    file.write(added)
        except OSError as error:
            raise self._refused(error) from error
        self._count(part)

    def finish(self) -> FeatureFacts:
        """Say what the folder holds; only then is it one."""
        if not self.rows:
            raise DataError(f"nothing to write to {self.outgoing.there}: the source has no rows")
        try:
            for name in (FEATURES, ROWS):
                with (self._folder / name).open("rb") as file:
                    os.fsync(file.fileno())
        except OSError as error:
            raise self._refused(error) from error
        values = asdict(self.facts) | {"pictures": self.images, "rows": self.rows}
        write_text(self._folder / FACTS, json.dumps(values, indent=2) + "\n")
        if self.outgoing.here == self.outgoing.there:
            (self._folder / PARTS).unlink()
        return FeatureFacts(**values)

    def _go_on(self, head: dict[str, Any], labels: Sequence[str]) -> None:
        """Keep the parts that are whole, of this key and with these labels; cut away all that follows."""
        paths = [self._folder / name for name in (FEATURES, ROWS, PARTS)]
        lines = _lines(paths[2])
        kept = lines[:1] if lines and _part(lines[0]) == head else []
        ends = [0, 0]
        if kept and all(path.is_file() for path in paths):
            with paths[0].open("rb") as features, paths[1].open("rb") as rows:
                for line, label in zip(lines[1:], labels, strict=False):
                    part = _part(line)
                    if not _is_whole(part, label, features, rows):
                        break
                    kept.append(line)
                    ends = [features.tell(), rows.tell()]
                    self._count(part)
        for path, end in zip(paths[:2], ends, strict=True):
            path.open("ab").close()
            os.truncate(path, end)
        paths[2].write_bytes(b"".join(kept) or json.dumps(head).encode() + b"\n")

    def _count(self, part: dict[str, Any]) -> None:
        self.parts += 1
        self.images += part["pictures"]
        self.rows += part["rows"]

    def _refused(self, error: OSError) -> InputError:
        return InputError(f"cannot write {self.outgoing.there}: {error.strerror or error}")


def write_features(
    folder: Path, facts: FeatureFacts, parts: Iterable[tuple[Features, list[FeatureRow]]]
) -> FeatureFacts:
    """Write a folder from parts at hand."""
    writer = FeatureWriter(Outgoing(folder, folder, ()), facts)
    for features, rows in parts:
        writer.add(features, rows)
    return writer.finish()


def _lines(path: Path) -> list[bytes]:
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    return lines if not lines or lines[-1].endswith(b"\n") else lines[:-1]


def _part(line: bytes) -> dict[str, Any]:
    try:
        values = load_json(line)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _is_whole(part: dict[str, Any], label: str, features: IO[bytes], rows: IO[bytes]) -> bool:
    """Whether the next bytes of both files are those the part names."""
    sizes = [part.get(name) for name in ("bytes", "row_bytes", "pictures", "rows")]
    if part.get("label") != label or not all(isinstance(size, int) and size >= 0 for size in sizes):
        return False
    return _digest(features.read(part["bytes"]), rows.read(part["row_bytes"])) == part.get("sha256")


def _digest(content: bytes, lines: bytes) -> str:
    return hashlib.sha256(content + lines).hexdigest()
