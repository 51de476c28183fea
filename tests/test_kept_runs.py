"""What a GPU session brought back is kept: unpacked, packed the same way each time, found again before the next."""

from __future__ import annotations

import importlib
import io
import json
import random
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.chdir(tmp_path)
    return importlib.import_module("kept_runs")


def back(files: dict[str, str]) -> Path:
    """A session's results, in two parts."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        for name, text in files.items():
            facts = tarfile.TarInfo(name)
            facts.size = len(text)
            archive.addfile(facts, io.BytesIO(text.encode()))
    folder, half = Path("back"), whole.tell() // 2
    folder.mkdir(exist_ok=True)
    for number, part in enumerate((whole.getvalue()[:half], whole.getvalue()[half:])):
        (folder / f"kept.tar.gz.{number}").write_bytes(part)
    return folder


def line(caption: str, *, number: int = 0, fact: bool | None = True) -> str:
    row = {"id": str(number), "caption": caption, "references": ["what somebody saw"], "fact": fact}
    return json.dumps(row) + "\n"


def run(cell: str, said: str, *, finished: bool = True) -> dict[str, str]:
    folder = f"out/ablations/board/cells/{cell}/seed-1/stage"
    return {f"{folder}/captions.jsonl": line(said)} | ({f"{folder}/summary.json": "{}"} if finished else {})


def test_what_came_back_is_kept_beside_what_was_there(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    archive = Path("docs/ablations/board-runs.tar.xz")
    program.save(back(run("duda", "old") | run("scorer-cbr", "stale") | run("vam", "half", finished=False)))
    assert "git add docs/ablations/board-runs.tar.xz" in capsys.readouterr().out
    first = archive.read_bytes()
    program.save(Path("back"))
    assert archive.read_bytes() == first  # same runs, same bytes

    Path("out").rename("lost")  # another machine
    assert program.restore("board") == 2
    others = {"out/session/job.log": "", "out/small/best/config.json": "{}", "out/ablations/board/speeds.json": "{}"}
    program.save(back(run("scorer-cbr", "new") | others))
    assert "a model: out/small/best" in capsys.readouterr().out
    with tarfile.open(archive) as kept:
        assert "board/speeds.json" in kept.getnames()
        told = {
            Path(name).parts[2]: kept.extractfile(name).read()  # type: ignore[union-attr]
            for name in kept.getnames()
            if name.endswith("captions.jsonl")
        }
    assert told == {"duda": line("old").encode(), "scorer-cbr": line("new").encode()}


def test_a_half_run_does_not_mix_with_a_finished_one(program: ModuleType) -> None:
    """It would be told as finished, with another run's figures."""
    folder = Path("out/ablations/board/cells/duda/seed-1/stage")
    program.save(back(run("duda", "finished")))
    (folder / "summary.json").unlink()
    program.save(back(run("duda", "half", finished=False)))
    assert (folder / "captions.jsonl").read_text() == line("finished")
    program.save(back(run("duda", "anew")))
    assert (folder / "captions.jsonl").read_text() == line("anew")


def test_what_was_run_here_is_packed_beside_what_was_there(
    program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    program.save(back(run("duda", "seed 1")))
    Path("out").rename("lost")
    here = Path("out/ablations/board/cells/vam/seed-1/stage")
    here.mkdir(parents=True)
    (here / "summary.json").write_text("{}")
    program.pack_all(["board"])
    assert "board: 2 finished runs of 2 cells" in capsys.readouterr().out


def test_what_stands_before_a_missing_part_is_kept(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    folder = back(run("duda", "whole") | run("vam", random.Random(1).randbytes(2000).hex()))
    (folder / "kept.tar.gz.1").unlink()
    program.save(folder)
    assert "is not whole" in capsys.readouterr().err
    with tarfile.open("docs/ablations/board-runs.tar.xz") as archive:
        assert "board/cells/duda/seed-1/stage/captions.jsonl" in archive.getnames()
        assert not [name for name in archive.getnames() if "vam" in name]


def test_what_people_wrote_is_not_packed(program: ModuleType, tmp_path: Path) -> None:
    folder = Path("out/ablations/board/cells/duda/seed-1/stage")
    spoken = line("a house", fact=None) + line("a road", number=1, fact=None)
    program.save(back({f"{folder}/captions.jsonl": spoken, f"{folder}/summary.json": "{}"}))
    Path("out").rename("lost")
    assert program.restore("board") == 1
    rows = [json.loads(each) for each in (folder / "captions.jsonl").read_text().splitlines()]
    assert [(row["caption"], row["references"]) for row in rows] == [("a house", []), ("a road", [])]

    pair = json.dumps({"captions": ["what somebody saw"]}) + "\n"
    (tmp_path / "metadata.jsonl").write_text(pair)
    with pytest.raises(SystemExit, match="has 2 captions, which are not of the 1 pairs"):
        program.put_references("board", tmp_path)
    (tmp_path / "metadata.jsonl").write_text(pair * 2)
    assert program.put_references("board", tmp_path) == 1
    assert (folder / "captions.jsonl").read_text() == spoken
    assert program.put_references("board", tmp_path) == 0  # they have theirs


def test_nothing_is_written_elsewhere(program: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no kept"):
        program.save(Path("nowhere"))
    with pytest.raises(SystemExit, match=r"files that no session writes: README\.md"):
        program.save(back({"README.md": "other"}))
    assert not Path("README.md").exists()


def test_the_runs_in_the_repository_are_found(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the docs say can be made again, can: under the names that the ablation of today looks for."""
    from spotchange.config.ablation import Ablation
    from spotchange.config.recipes import ABLATIONS, find_recipe
    from spotchange.training.ablation.reuse import check_finished
    from spotchange.training.ablation.table import plan

    monkeypatch.setattr(program, "ARCHIVES", ROOT / "docs" / "ablations")
    for name, cells in (("leaderboard", 24), ("leaderboard-levir-cc", 8)):
        ablation = Ablation.from_yaml(find_recipe(name, within=ABLATIONS))
        brought = program.restore(name)
        jobs = plan(ablation, Path("out/ablations") / name)
        finished = [job for job in jobs if job.summary is not None]
        assert len(finished) == brought >= 3 * cells
        check_finished(jobs)
        for said in (Path("out/ablations") / name).glob("cells/*/*/*/captions.jsonl"):
            rows = [json.loads(each) for each in said.read_text().splitlines()]
            assert all(bool(row["references"]) == (row["fact"] is not None) for row in rows)
