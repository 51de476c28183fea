"""Many pairs: from a manifest or two folders to one JSON line each, resumable, one bad pair not stopping the rest."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spotchange.answering.captioner import Captioner
from spotchange.answering.interface import CaptionOptions
from spotchange.data import read_manifest
from spotchange.errors import InputError, SpotchangeError
from spotchange.images import images_in


@dataclass(frozen=True, kw_only=True)
class NamedPair:
    """A pair to caption and the name its result carries."""

    id: str
    before: Path
    after: Path


def pairs_from_manifest(manifest: Path) -> list[NamedPair]:
    """The rows of a data set's metadata file, captions not needed."""
    rows = read_manifest(manifest)
    return [NamedPair(id=row.id, before=row.before_path, after=row.after_path) for row in rows]


def pairs_from_folders(before: Path, after: Path) -> list[NamedPair]:
    """Pictures that have the same relative path in both folders."""
    for folder in (before, after):
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder")
    names = sorted(images_in(before) & images_in(after))
    if not names:
        raise InputError(f"no picture has the same name in {before} and {after}")
    return [NamedPair(id=name, before=before / name, after=after / name) for name in names]


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
    if out.is_dir():
        raise InputError(f"--out {out} is a folder")
    if not force:
        for earlier in (out, _partial(out)):
            for _ in _whole_lines(earlier):
                pass


def write_results(
    captioner: Captioner,
    pairs: Sequence[NamedPair],
    out: Path,
    *,
    options: CaptionOptions,
    batch_size: int,
    advance: Callable[[int], None],
    force: bool = False,
) -> list[dict[str, Any]]:
    """Write `out`, continuing what an earlier run left; pairs that failed are tried again.

    Lines collect in `out`.partial as they are made, so an interrupted run loses at most one batch;
    the finished file appears under its own name at once. With `force` nothing old is looked at.
    """
    partial = _partial(out)
    known = {pair.id for pair in pairs}
    if len(known) < len(pairs):
        raise InputError("two pairs have the same id")
    earlier = () if force else (out, partial)
    done = {line["id"]: line for source in earlier for line in _whole_lines(source) if "error" not in line}
    done = {name: line for name, line in done.items() if name in known}
    advance(len(done))
    missing = [pair for pair in pairs if pair.id not in done]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as stream:
            for line in done.values():
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
            for line in caption_pairs(captioner, missing, options=options, batch_size=batch_size):
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                stream.flush()
                done[line["id"]] = line
                advance(1)
        results = [done[pair.id] for pair in pairs]
        # In the order of the input, whatever order an interrupted run left.
        partial.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in results), encoding="utf-8")
        os.replace(partial, out)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror or error}") from error
    return results


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
            line = json.loads(each)
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
