"""What a data set holds and what is wrong with it: counts, sizes, missing files, duplicates, vocabulary."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from spotchange.data.metadata import Row, RowProblem, list_splits, read_rows
from spotchange.errors import DataError, ImageError
from spotchange.images import image_size, read_image

PROBLEMS_KEPT = 100  # listed in full; the rest is only counted
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@dataclass
class SplitReport:
    """What one split holds."""

    rows: int = 0
    bad_rows: int = 0
    missing_files: int = 0
    unreadable_files: int = 0
    empty_captions: int = 0
    captions: int = 0
    captions_per_row: dict[str, int] = field(default_factory=dict)
    words_per_caption: dict[str, float] = field(default_factory=dict)
    change_types: dict[str, int] = field(default_factory=dict)
    picture_sizes: dict[str, int] = field(default_factory=dict)  # the name in --json
    columns: list[str] = field(default_factory=list)
    repeated_pairs: int = 0


@dataclass
class DatasetReport:
    """Everything `spotchange data check` says. `problems` make a set unusable, `warnings` do not."""

    path: str
    splits: dict[str, SplitReport] = field(default_factory=dict)
    vocabulary: int = 0
    most_common_words: list[tuple[str, int]] = field(default_factory=list)
    problem_count: int = 0
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.problem_count == 0

    def add_problem(self, text: str) -> None:
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(text)

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def check_dataset(
    data_dir: str | os.PathLike[str], *, decode: bool = False, advance: Callable[[int], None] | None = None
) -> DatasetReport:
    """Read every row and every image's header of a data set (with `decode`: every pixel)."""
    report = DatasetReport(path=str(data_dir))
    splits = list_splits(data_dir)
    if not splits:
        raise DataError(f"{data_dir} holds no data set", hint="a data set is DIR/{train,val,test}/metadata.jsonl")
    words: Counter[str] = Counter()
    split_of: dict[str, str] = {}  # an image's real path -> the split it was last seen in
    shared: Counter[tuple[str, str]] = Counter()
    for split in splits:
        checker = _SplitChecker(report, split, words, split_of, shared, decode=decode)
        for row in read_rows(data_dir, split, skip_bad=True, check_files=False, on_problem=checker.add_bad_row):
            checker.add(row)
            if advance is not None:
                advance(1)
        checker.finish()
    report.vocabulary = len(words)
    report.most_common_words = words.most_common(20)
    report.warnings += [
        f"{count} pictures of '{later}' are also in '{earlier}'" for (earlier, later), count in sorted(shared.items())
    ]
    kinds = [set(each.columns) for each in report.splits.values() if each.rows]
    odd = {kind for each in kinds for other in kinds for kind in each - other}
    if odd:
        names = ", ".join(sorted(odd))
        report.warnings.append(f"splits differ in columns or their types ({names}): Hugging Face datasets refuses this")
    return report


def _kinds(value: Any, name: str = "") -> set[str]:
    """Columns with the types their values show, down into lists and objects, as `captions[] str`."""
    if isinstance(value, dict):
        return {kind for key, inner in value.items() for kind in _kinds(inner, f"{name}.{key}" if name else key)}
    if isinstance(value, list):
        return {kind for inner in value for kind in _kinds(inner, f"{name}[]")}
    return set() if value is None else {f"{name} {type(value).__name__}"}


class _SplitChecker:
    def __init__(
        self,
        report: DatasetReport,
        split: str,
        words: Counter[str],
        split_of: dict[str, str],
        shared: Counter[tuple[str, str]],
        *,
        decode: bool,
    ) -> None:
        self.report, self.split, self.decode = report, split, decode
        self.words, self.split_of, self.shared = words, split_of, shared
        self.found = report.splits[split] = SplitReport()
        self.columns: set[str] = set()
        self.caption_counts: Counter[int] = Counter()
        self.word_counts: Counter[int] = Counter()
        self.types: Counter[str] = Counter()
        self.sizes: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.pairs: set[tuple[str, str]] = set()
        self.outside = 0

    def add_bad_row(self, problem: RowProblem) -> None:
        self.found.bad_rows += 1
        self.found.empty_captions += "empty" in problem.reason and "captions" in problem.reason
        self.report.add_problem(str(problem))

    def add(self, row: Row) -> None:
        self.found.rows += 1
        self.columns |= _kinds(row.to_dict())
        self.types[row.change_type or "not given"] += 1
        self.caption_counts[len(row.captions)] += 1
        for caption in row.captions:
            words = _WORD.findall(caption.lower())
            self.words.update(words)
            self.word_counts[len(words)] += 1
        if row.id in self.ids:
            self.report.add_problem(f"{self.split}: there are several rows '{row.id}'")
        self.ids.add(row.id)
        pair = (row.before_file_name, row.after_file_name)
        self.found.repeated_pairs += pair in self.pairs
        self.pairs.add(pair)
        for path in (row.before_path, row.after_path, row.mask_path):
            if path is not None:
                self.add_file(row, path)

    def add_file(self, row: Row, path: Path) -> None:
        relative = os.path.relpath(path, row.folder)
        self.outside += relative.startswith("..")
        name = os.path.realpath(path)
        if name in self.split_of:
            earlier = self.split_of[name]
            if earlier != self.split:
                self.shared[earlier, self.split] += 1
                self.split_of[name] = self.split
            return
        self.split_of[name] = self.split
        if not path.is_file():
            self.found.missing_files += 1
            self.report.add_problem(f"{self.split}: row '{row.id}': {path} does not exist")
            return
        try:
            width, height = read_image(path).size if self.decode else image_size(path)
            self.sizes[f"{width}x{height}"] += 1
        except ImageError as error:
            self.found.unreadable_files += 1
            self.report.add_problem(f"{self.split}: row '{row.id}': {error.message}")

    def finish(self) -> None:
        found = self.found
        # Whole numbers beside fractions are read as fractions.
        found.columns = sorted(kind for kind in self.columns if kind.removesuffix("int") + "float" not in self.columns)
        found.captions = sum(count * rows for count, rows in self.caption_counts.items())
        found.captions_per_row = {str(count): rows for count, rows in sorted(self.caption_counts.items())}
        found.change_types = dict(self.types.most_common())
        found.picture_sizes = dict(self.sizes.most_common())
        if self.word_counts:
            total = sum(self.word_counts.values())
            mean = sum(count * captions for count, captions in self.word_counts.items()) / total
            found.words_per_caption = {
                "min": min(self.word_counts),
                "mean": round(mean, 1),
                "max": max(self.word_counts),
            }
        if not found.rows:
            self.report.add_problem(f"{self.split}: no usable row")
        if found.repeated_pairs:
            self.report.warnings.append(f"{self.split}: {found.repeated_pairs} rows repeat a pair of another row")
        if self.outside:
            self.report.warnings.append(
                f"{self.split}: {self.outside} file names leave the split's folder: Hugging Face datasets refuses this"
            )
