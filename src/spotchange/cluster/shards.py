"""Results on their way to one file: shards beside it, and a manifest that says which of them are whole.

`OUT.shards/NNNNNN.jsonl` holds the lines of one piece of the work; `OUT.shards/manifest.json` names it after it is
published, with what it was made from and its checksum. A run that goes on makes only what is not named there, what
was made from something else, and what no longer has its checksum.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

from spotchange.errors import InputError
from spotchange.files import atomic_path, json_text, load_json, remove_folder, write_bytes, write_text

MANIFEST, FORMAT = "manifest.json", 1
SECONDS_BETWEEN = 1.0  # writing a long manifest after every shard would cost more than making a shard again


class ShardedLines:
    """JSON lines in numbered shards; one process writes them."""

    def __init__(self, out: Path, *, anew: bool = False) -> None:
        self.out = out
        self.folder = out.with_name(out.name + ".shards")
        self._shards: dict[int, dict[str, Any]] = {}
        self._written = 0.0
        if anew:
            remove_folder(self.folder)
        else:
            self._read()

    def __len__(self) -> int:
        """How many shards the manifest names."""
        return len(self._shards)

    def whole(self, number: int, key: str) -> list[dict[str, Any]] | None:
        """The lines of a shard made from `key`, if it is there as it was written."""
        entry = self._shards.get(number)
        if entry is None or entry["key"] != key:
            return None
        content = self._content(number)
        return None if content is None else [load_json(line) for line in content.splitlines()]

    def add(self, number: int, key: str, lines: list[dict[str, Any]]) -> None:
        """Publish a shard, and then name it in the manifest."""
        content = "".join(json_text(line) + "\n" for line in lines).encode()
        write_bytes(self._path(number), content)
        self._shards[number] = {
            "key": key,
            "sha256": hashlib.sha256(content).hexdigest(),
            "lines": len(lines),
        }
        if time.monotonic() > self._written + SECONDS_BETWEEN:
            self.save()

    def save(self) -> None:
        """Write the manifest now."""
        shards = {str(number): entry for number, entry in sorted(self._shards.items())}
        write_text(self.folder / MANIFEST, json.dumps({"format": FORMAT, "shards": shards}, indent=1) + "\n")
        self._written = time.monotonic()

    def merge(self, shards: int) -> None:
        """All shards in their order become the one file, all or nothing; then they go."""
        with atomic_path(self.out) as temporary, temporary.open("wb") as merged:
            for number in range(shards):
                content = self._content(number)
                if content is None:
                    raise InputError(f"{self._path(number)} is damaged", hint="run the same command again")
                merged.write(content)
        self.remove()

    def remove(self) -> None:
        """What they were kept for is done."""
        remove_folder(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.jsonl"

    def _content(self, number: int) -> bytes | None:
        """The bytes of a shard, if they are those the manifest names."""
        try:
            content = self._path(number).read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == self._shards[number]["sha256"] else None

    def _read(self) -> None:
        """A manifest that is damaged names nothing: its shards are made again."""
        try:
            values = load_json((self.folder / MANIFEST).read_bytes())
            if values["format"] == FORMAT:
                self._shards = {int(number): _checked(entry) for number, entry in values["shards"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._shards = {}


def _checked(entry: Any) -> dict[str, Any]:
    kinds = {"key": str, "sha256": str, "lines": int}
    if not all(isinstance(entry[name], kind) for name, kind in kinds.items()):
        raise ValueError("not an entry of a manifest")
    return dict(entry)
