"""Many pairs: from a manifest, folders or tar shards to one JSON line each, resumable; a bad pair stops no other."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from spotchange.answering.bulk.fingerprint import pair_fingerprint
from spotchange.answering.captioner import Captioner
from spotchange.answering.interface import CaptionOptions
from spotchange.data import read_manifest
from spotchange.data.shard_members import members_of
from spotchange.errors import InputError, SpotchangeError
from spotchange.files import json_text, load_json, write_text
from spotchange.images import images_in
from spotchange.locks import one_writer
from spotchange.storage import StorePath, as_place, check_writable


@dataclass(frozen=True, kw_only=True)
class NamedPair:
    """A pair to caption and the name its result carries."""

    id: str
    before: Path
    after: Path


@dataclass(kw_only=True)
class Tally:
    """What became of many pairs."""

    pairs: int = 0
    failed: int = 0
    changed: int = 0

    def add(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Count lines of results."""
        for line in lines:
            self.pairs += 1
            self.failed += "error" in line
            self.changed += bool(line.get("changed"))


def pairs_from_manifest(manifest: Path) -> list[NamedPair]:
    """The rows of a data set's metadata file, captions not needed."""
    rows = read_manifest(manifest)
    pairs = [NamedPair(id=row.id, before=row.before_path, after=row.after_path) for row in rows]
    if not pairs:
        raise InputError(f"{manifest} names no pair")
    return pairs


def pairs_from_shards(shards: Path, *, told: Callable[[str], None] = lambda text: None) -> list[NamedPair]:
    """The pairs of a tar shard, of all in a folder, or of those that a pattern such as train-*.tar matches.

    Images stay where they are; `told` learns in one line what has to be read through to find them.
    """
    found = members_of(shards, told=told)
    pairs = [NamedPair(id=name, before=as_place(before), after=as_place(after)) for name, before, after in found]
    if not pairs:
        raise InputError(f"{shards} holds no pair")
    return pairs


def pairs_from_folders(before: Path, after: Path) -> list[NamedPair]:
    """Images that have the same relative path in both folders."""
    for folder in (before, after):
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder")
    names = sorted(images_in(before) & images_in(after))
    if not names:
        raise InputError(f"no image has the same name in {before} and {after}")
    return [NamedPair(id=name, before=before / name, after=after / name) for name in names]


def unpaired(before: Path, after: Path) -> list[Path]:
    """Images of either folder that have no partner in the other."""
    there, here = images_in(before), images_in(after)
    return [*(before / name for name in sorted(there - here)), *(after / name for name in sorted(here - there))]


def caption_pairs(
    captioner: Captioner, pairs: Sequence[NamedPair], *, options: CaptionOptions, batch_size: int
) -> Iterator[dict[str, Any]]:
    """One result a pair, in order: the caption result with its `id`, or `{"id", "error"}`."""
    answers = captioner.answer_many(
        [(pair.before, pair.after) for pair in pairs], options=options, batch_size=batch_size, keep_errors=True
    )
    for pair, answer in zip(pairs, answers, strict=True):
        if isinstance(answer, SpotchangeError):
            yield {"id": pair.id, "error": answer.message}
        else:
            yield {"id": pair.id, **answer.result.to_dict()}


def check_results_file(out: Path, inputs: Sequence[Path], *, force: bool) -> None:
    """Refuse to write over anything but results, before any time is spent on them.

    Args:
        out: where results will be written.
        inputs: what is read; never written over, whatever is asked for.
        force: replace a file that holds something else.
    """
    place = out.resolve()
    if any(place == each.resolve() for each in inputs):
        raise InputError(f"--out {out} is one of the inputs", hint="choose another --out file")
    check_writable(out.parent, "--out")
    if out.is_dir():
        raise InputError(f"--out {out} is a folder")
    if not isinstance(out, StorePath) and out.exists() and not out.is_file():  # a device or a pipe never ends
        raise InputError(f"--out {out} is not a file", hint="without --out, results go to the standard output")
    if not force:
        for earlier in (out, _partial(out)):
            for _ in _whole_lines(earlier):
                pass


def write_results(
    captioner: Captioner,
    pairs: Sequence[NamedPair],
    out: Path,
    *,
    asked: str,
    options: CaptionOptions,
    batch_size: int,
    advance: Callable[[int], None],
    force: bool = False,
) -> Tally:
    """Write `out`, continuing what an earlier run left; pairs that failed are tried again.

    Lines are added to `out`.partial as they are made, so an interrupted run loses at most one batch; what an earlier
    run finished stays where it is until the whole file takes its place. A line is used again only if it has the
    fingerprint of the images, the model and the options of this run; with `force`, never.

    Args:
        asked: `asked_fingerprint` of the model and the options.
    """
    check_ids(pairs)
    tally = Tally()
    partial = _partial(out)
    with one_writer(out):
        found = {pair.id: pair_fingerprint(asked, pair.before, pair.after) for pair in pairs}
        marks = {name: mark for name, mark in found.items() if mark is not None}
        lines = () if force else earlier_lines(out)
        done = {line["id"]: line for line in lines if line.get("fingerprint", "none") == marks.get(line["id"])}
        advance(len(done))
        missing = [pair for pair in pairs if pair.id not in done]
        try:
            with _adding(partial, anew=force) as stream:
                for line in caption_pairs(captioner, missing, options=options, batch_size=batch_size):
                    if "error" not in line and line["id"] in marks:
                        line["fingerprint"] = marks[line["id"]]
                    stream.write(json_text(line) + "\n")
                    stream.flush()
                    done[line["id"]] = line
                    advance(1)
        except OSError as error:
            raise InputError(f"cannot write {out}: {error.strerror or error}") from error
        results = [done[pair.id] for pair in pairs]
        # In the order of the input, whatever order an interrupted run left.
        write_text(out, "".join(json_text(line) + "\n" for line in results))
        partial.unlink(missing_ok=True)
    tally.add(results)
    return tally


def check_ids(pairs: Sequence[NamedPair]) -> None:
    """Every line needs a name of its own."""
    names = Counter(pair.id for pair in pairs)
    if len(names) < len(pairs):
        hint = "of tar shards, take one split: --pairs 'DIR/val-*.tar'"
        raise InputError(f"two pairs have the same id, {names.most_common(1)[0][0]!r}", hint=hint)


def earlier_lines(out: Path) -> Iterator[dict[str, Any]]:
    """Results without error that earlier runs wrote to `out`, finished or not."""
    for source in (out, _partial(out)):
        yield from (line for line in _whole_lines(source) if "error" not in line)


def _adding(partial: Path, *, anew: bool) -> TextIO:
    """Open for adding lines; one that was cut off goes, whole ones stay."""
    if anew:
        partial.unlink(missing_ok=True)
    if partial.exists():
        content = partial.read_bytes()
        os.truncate(partial, content.rfind(b"\n") + 1)
    return partial.open("a", encoding="utf-8", newline="\n")


def _partial(out: Path) -> Path:
    return out.with_name(out.name + ".partial")


def _whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Results of an earlier run; a last line that was cut off is left out, and nothing else."""
    try:
        text = path.read_bytes().decode("utf-8", "replace") if path.exists() else ""
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    lines = text.splitlines(keepends=True)
    for number, each in enumerate(lines, start=1):
        try:
            line = load_json(each)
        except (ValueError, RecursionError):
            if number == len(lines) > 1 and not each.endswith("\n"):
                return
            line = None
        if not _is_result(line):
            hint = "choose another --out file; --force replaces this one"
            raise InputError(f"{path}:{number} is not a caption result", hint=hint)
        yield line


def _is_result(line: Any) -> bool:
    if not isinstance(line, dict) or not isinstance(line.get("id"), str):
        return False
    return isinstance(line.get("error"), str) or {"schema_version", "caption", "changed"} <= line.keys()
