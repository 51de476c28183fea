"""Lines that are kept while a run lasts, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spotchange.cli import generate
from spotchange.cluster import ClusterOptions, Resumption, ShardedLines, lines_of
from spotchange.cluster.resume import MARK
from spotchange.cluster.work import run_here
from spotchange.errors import InputError
from spotchange.evaluation.on_cluster import line_of, output_of
from spotchange.evaluation.predictions import Output
from spotchange.regression import ComparedFile
from spotchange.results import Alternative, CaptionResult, Finding, Region
from spotchange.training.sources import extraction


@dataclass
class Lengths:
    """The lengths of texts in files, and which files were looked into for them."""

    version: str = "1"
    batch_size: int = 1
    made: list[str] = field(default_factory=list)

    def start(self) -> Callable[[Sequence[Path]], Iterator[dict[str, Any]]]:
        def lengths(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
            for path in paths:
                self.made.append(path.name)
                yield {"id": path.name, "length": len(path.read_text())}

        return lengths

    def failed(self, item: Path, reason: str) -> dict[str, Any]:
        return {"id": item.name, "error": reason}

    def settings(self) -> str:
        return self.version

    def names(self, item: Path) -> str:
        return str(item)

    def fingerprint(self, item: Path) -> str:
        return item.read_text()


class Stopped(Exception):
    """A run that came no further."""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for number in range(10):
        path = tmp_path / f"t{number}"
        path.write_text("x" * number)
        found[path.name] = path
    return found


def run(work: Lengths, files: dict[str, Path], out: Path, *, stop: bool = False) -> tuple[list[Any], list[str], str]:
    """All lines, the names of those that were completed here, and what was told."""
    completed: list[str] = []
    told: list[str] = []
    lines: list[Any] = []

    def complete(items: list[Path], made: list[dict[str, Any]]) -> list[dict[str, Any]]:
        completed.extend(item.name for item in items)
        return [{name: line[name] for name in line if name != MARK} | {"completed": True} for line in made]

    kept = Resumption(shards=ShardedLines(out), told=told.append)
    for _, piece in lines_of(work, files, cluster=None, kept=kept, completed=complete):
        lines += piece
        if stop:
            raise Stopped
    return lines, completed, " ".join(told)


def test_what_was_completed_is_kept_and_only_the_rest_is_made(files: dict[str, Path], tmp_path: Path) -> None:
    whole, completed, told = run(Lengths(), files, tmp_path / "whole")
    assert completed == list(files)
    assert told == ""
    out = tmp_path / "out"
    with pytest.raises(Stopped):
        run(Lengths(), files, out, stop=True)
    work = Lengths()
    lines, completed, told = run(work, files, out)
    assert work.made == completed == list(files)[4:]
    assert lines == whole
    assert told.endswith("going on, 4 of 10 rows are there")

    files["t2"].write_text("another text")
    work = Lengths()
    lines, completed, _ = run(work, files, out)
    assert work.made == completed == ["t2"]
    assert lines[2]["length"] == 12
    work = Lengths(version="2")
    assert run(work, files, out)[2].endswith("beginning anew")
    assert work.made == list(files)


def test_an_error_is_made_again_and_its_neighbours_are_not(files: dict[str, Path], tmp_path: Path) -> None:
    class Failing(Lengths):
        def start(self) -> Callable[[Sequence[Path]], Iterator[dict[str, Any]]]:
            lengths = super().start()
            bad = {"id": "t1", "error": "is no text"}
            return lambda paths: (bad if line["id"] == "t1" else line for line in lengths(paths))

    out = tmp_path / "out"
    with pytest.raises(Stopped):
        run(Failing(), files, out, stop=True)
    work = Lengths()
    lines, _, told = run(work, files, out)
    assert work.made == ["t1", *list(files)[4:]]
    assert [line["length"] for line in lines] == list(range(10))
    assert told.endswith("going on, 3 of 10 rows are there")


def test_a_piece_that_comes_late_holds_nothing_up(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(work: Any, wanted: dict[int, Any], *_: Any, **__: Any) -> Iterator[tuple[int, list[Any]]]:
        """As a cluster gives a piece that lost its worker."""
        first, *rest = run_here(work, wanted)
        yield from (*rest, first)

    monkeypatch.setattr("spotchange.cluster.resume.run_on_ray", late)
    shards, found = ShardedLines(tmp_path / "out"), []
    for number, lines in lines_of(Lengths(), files, cluster=ClusterOptions(), kept=Resumption(shards=shards)):
        found.append((number, len(lines), len(shards)))
    assert found == [(1, 4, 1), (2, 2, 2), (0, 4, 3)]
    shards.merge(3)
    assert [json.loads(line)["id"] for line in (tmp_path / "out").read_text().splitlines()] == list(files)


def test_what_does_not_begin_leaves_nothing(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> Iterator[tuple[int, list[Any]]]:
        raise InputError("the cluster has other versions")
        yield

    monkeypatch.setattr("spotchange.cluster.resume.run_on_ray", refused)
    kept = Resumption(shards=ShardedLines(tmp_path / "new" / "out"))
    with pytest.raises(InputError):
        list(lines_of(Lengths(), files, cluster=ClusterOptions(), kept=kept))
    assert not (tmp_path / "new").exists()


def test_large_results_travel_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    def far(work: Any, wanted: dict[int, Any], *_: Any, **__: Any) -> Iterator[tuple[int, list[Any]]]:
        given.extend(map(len, wanted.values()))
        return iter(())

    monkeypatch.setattr("spotchange.cluster.run_on_ray", far)
    monkeypatch.setattr("spotchange.training.sources.extraction.run_on_ray", far)
    assert list(generate._on_cluster(ClusterOptions(), None, range(70_000))) == []  # type: ignore[arg-type]
    assert sum(given) == 70_000
    assert max(given) <= 64
    given.clear()
    spans = [(start, start + 8) for start in range(0, 8000, 8)]
    with pytest.raises(ValueError, match="shorter"):  # nothing came
        list(extraction._run(None, spans, SimpleNamespace(parts=0), ClusterOptions(), lambda done: None))  # type: ignore[arg-type]
    assert given == [1] * 1000


def test_nothing_to_do_writes_nothing(tmp_path: Path) -> None:
    assert run(Lengths(), {}, tmp_path / "out")[0] == []
    assert list(tmp_path.iterdir()) == []


def test_answers_survive_their_line() -> None:
    heat = np.random.default_rng(0).random((2, 3, 4), dtype=np.float32)
    answer = Output(
        caption="a", changed=True, change_type="move", change_score=1 / 3, heat=heat, differences=("a", "b")
    )
    again = output_of(json.loads(json.dumps(line_of(answer))))
    assert again.heat is not None
    assert again.heat.dtype == np.float32
    assert np.array_equal(again.heat, heat)
    assert line_of(again) == line_of(answer)
    failed = Output.failed("no reply")
    assert line_of(failed)["error"] == "no reply"
    assert output_of(line_of(failed)) == failed


def test_compared_files_survive_their_line() -> None:
    finding = Finding(
        kind="moved", sentence="it moved", boxes_before=((1, 2, 3, 4),), shift=(1, 0), colours=("red", "blue")
    )
    result = CaptionResult(
        caption="it moved",
        changed=True,
        change_score=1.0,
        change_type=None,
        alternatives=(Alternative(text="it went", score=-0.1),),
        differences=("one",),
        regions=(Region(image="after", box=(1, 2, 3, 4), score=0.5),),
        warnings=("careful",),
        findings=(finding,),
    )
    for compared in (
        ComparedFile(name="a.png", status="changed", result=result, view="<p>"),
        ComparedFile(name="b.png", status="failed", error="is no image"),
        ComparedFile(name="c.png", status="identical"),
    ):
        assert ComparedFile.from_line(json.loads(json.dumps(compared.to_line()))) == compared
