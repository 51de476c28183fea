"""The rows of a data set that are scored: of one split of a folder, or of tar shards where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from spotchange.data import Row, list_splits, read_manifest, read_rows
from spotchange.data.metadata import METADATA, WORDLESS
from spotchange.data.protocols import Protocol
from spotchange.data.shard_members import rows_of
from spotchange.data.shards import list_shards
from spotchange.errors import DataError
from spotchange.metrics import ConstantCaption, best_constant

WHOLE = "."  # the split of a folder whose rows lie in it directly, and of shards that were named one by one
CONSTANT_PAIRS = 20_000  # training pairs read to find the best constant caption


@dataclass(frozen=True, kw_only=True)
class ScoredSplit:
    """One split of a data set, as a protocol wants its sentences."""

    place: Path
    split: str
    packed: bool
    """In tar shards."""
    protocol: Protocol | None = None

    @classmethod
    def of(cls, place: Path, split: str, protocol: Protocol | None) -> ScoredSplit:
        """What a user means by a place and the name of a split."""
        if place.suffix.lower() == ".tar" and not place.is_dir():
            return cls(place=place, split=WHOLE, packed=True, protocol=protocol)
        in_folder = (place / split / METADATA).is_file()
        if not in_folder and (place / METADATA).is_file() and not (place / split).exists():
            return cls(place=place, split=WHOLE, packed=False, protocol=protocol)
        packed = not in_folder and place.is_dir() and not list_splits(place) and any(place.glob("*-*.tar"))
        return cls(place=place, split=split, packed=packed, protocol=protocol)

    def rows(self, limit: int | None) -> list[Row]:
        """The first rows, each id once."""
        rows = [self._as_scored(row) for row in islice(self._read(self.split), limit)]
        if not rows:
            raise DataError(f"{self.place} has no rows in split {self.split!r}")
        seen: set[str] = set()
        for row in rows:
            if row.id in seen:
                raise DataError(f"{self.place}, split {self.split!r}: id {row.id!r} stands in it more than once")
            seen.add(row.id)
        return rows

    def wordless(self) -> list[Row]:
        """Pairs of a published split without any sentence: where they count, it is with an empty reference."""
        if self.protocol is None or not self.protocol.counts_wordless:
            return []
        if self.packed:
            told = f"protocol {self.protocol.name} counts pairs without a sentence, and tar shards hold none of them"
            raise DataError(f"{self.place}: {told}", hint="evaluate the folder that the shards were made of")
        path = self.place / self.split / WORDLESS
        return [replace(row, captions=("",)) for row in read_manifest(path)] if path.is_file() else []

    def constant(self, rows: Sequence[Row]) -> ConstantCaption:
        """The best constant caption, chosen on the training split where that is another one than the one scored."""
        if self.split != "train" and "train" in self._splits():
            training = islice(self._read("train", check_files=False), CONSTANT_PAIRS)
            known = {row.id: self._as_scored(row).captions for row in training}
            return best_constant(known, source="training captions")
        where = "references" if self.split == WHOLE else f"{self.split} references"
        return best_constant({row.id: row.captions for row in rows}, source=f"{where}, for want of a training split")

    def _read(self, split: str, *, check_files: bool = True) -> Iterable[Row]:
        if self.packed:
            return rows_of(self.place, None if split == WHOLE else split)
        return read_rows(self.place, split, check_files=check_files)

    def _splits(self) -> Iterable[str]:
        if not self.packed:
            return list_splits(self.place)
        return () if self.split == WHOLE else list_shards(self.place)

    def _as_scored(self, row: Row) -> Row:
        return row if self.protocol is None else replace(row, captions=tuple(self.protocol.references(row.captions)))
