"""compare and evaluate on a Ray cluster, killed in the middle: the same command goes on, and writes the same."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from spotchange.cli.main import app
from spotchange.cluster import ClusterOptions
from spotchange.data import Row, read_rows
from spotchange.data.shards import write_shards
from spotchange.errors import InputError
from spotchange.evaluation.on_cluster import AnswerWork, outputs_from_cluster

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster"), pytest.mark.filterwarnings("ignore")]
RAY = ("--engine", "ray", "--workers", "1")
# The process that writes is gone after its second shard, without a chance to tidy up.
KILLED = """
import os, signal
from spotchange.cluster import ShardedLines
add = ShardedLines.add
def add_and_die(self, number, key, lines):
    add(self, number, key, lines)
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
ShardedLines.add = add_and_die
from spotchange.cli.main import main
main()
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def run_until_killed(*arguments: object) -> None:
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-c", KILLED, *map(str, arguments), "--address", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def change_shard(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]], *, named: bool) -> set[str]:
    """Change the lines of the first shard, with or without the manifest's knowledge; their names."""
    shard, manifest = folder / "000000.jsonl", folder / "manifest.json"
    lines = [change(json.loads(line)) for line in shard.read_text().splitlines()]
    shard.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if named:
        values = json.loads(manifest.read_text())
        values["shards"]["0"]["sha256"] = hashlib.sha256(shard.read_bytes()).hexdigest()
        manifest.write_text(json.dumps(values))
    return {line["id"] for line in lines}


def draw(path: Path, left: int, colour: str) -> None:
    image = Image.new("RGB", (36, 24), "white")
    ImageDraw.Draw(image).rectangle((left, 3, left + 8, 12), fill=colour)
    image.save(path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighty pairs, three pieces of work; one of the last cannot be read."""
    place = tmp_path_factory.mktemp("folders")
    for side in ("before", "after"):
        (place / side).mkdir()
        for number in range(80):
            draw(place / side / f"{number:02d}.png", 3 + (1 + number % 11) * (side == "after"), "navy")
    (place / "after" / "77.png").write_bytes(b"no image")
    shutil.copy(place / "before" / "00.png", place / "after" / "new.png")
    return place


def compare(folders: Path, place: Path) -> tuple[object, ...]:
    results = {"out": "o.jsonl", "report": "r.html", "junit": "j.xml", "markdown": "m.md", "diff-dir": "diffs"}
    options = [part for name, file in results.items() for part in (f"--{name}", place / file)]
    return ("compare", folders / "before", folders / "after", *options)


def written(place: Path) -> dict[str, bytes]:
    """All files, but for what measures a clock."""
    clock = re.compile(rb'"seconds": [\d.e-]+|time="[\d.]+"')
    files = (path for path in place.rglob("*") if path.is_file())
    return {path.relative_to(place).as_posix(): clock.sub(b"", path.read_bytes()) for path in files}


def kept_of(out: Path) -> set[str]:
    """Names of the lines that a run took from the changed shard."""
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len({line["id"] for line in lines}) == len(lines) == 81
    return {line["id"] for line in lines if line.get("seconds") == 99.0}


def test_compare_goes_on_after_a_kill(folders: Path, tmp_path: Path) -> None:
    here, far = tmp_path / "here", tmp_path / "far"
    wrong = "1 of 81 images cannot be read; their lines say why"
    assert str(run(*compare(folders, here)).exception) == wrong
    run_until_killed(*compare(folders, far), *RAY)
    shards = far / "o.jsonl.shards"
    assert not (far / "o.jsonl").exists()
    assert "0" in json.loads((shards / "manifest.json").read_text())["shards"]
    marked = change_shard(shards, lambda line: line | {"seconds": 99.0}, named=True)
    shutil.copytree(shards, tmp_path / "kept")
    (far / "diffs" / "03.png").unlink()  # not there any more: this pair is compared again

    gone_on = run(*compare(folders, far), *RAY)
    assert str(gone_on.exception) == wrong
    assert "going on, " in gone_on.stderr
    assert kept_of(far / "o.jsonl") == marked - {"03.png"}
    assert len(marked) == 32
    assert written(far) == written(here)  # no shards are left, nor locks
    assert sorted(path.name for path in (far / "diffs").iterdir()) == sorted(
        f"{number:02d}.png" for number in range(80) if number != 77
    )

    shutil.copytree(tmp_path / "kept", shards)
    change_shard(shards, lambda line: line | {"caption": "nobody said this"}, named=False)
    run(*compare(folders, far), *RAY)  # a damaged shard is made again
    assert kept_of(far / "o.jsonl") == set()
    assert written(far) == written(here)


def test_compare_mixes_nothing_of_other_inputs_or_settings(folders: Path, tmp_path: Path) -> None:
    pages = shutil.copytree(folders, tmp_path / "pages")
    far = tmp_path / "far"
    command = ("compare", pages / "before", pages / "after", "--out", far / "o.jsonl", *RAY)
    run_until_killed(*command)
    shards = far / "o.jsonl.shards"
    marked = change_shard(shards, lambda line: line | {"seconds": 99.0}, named=True)
    shutil.copytree(shards, tmp_path / "kept")
    draw(pages / "after" / "05.png", 20, "red")
    run(*command)
    assert kept_of(far / "o.jsonl") == marked - {"05.png"}

    shutil.copytree(tmp_path / "kept", shards)
    other = run(*command, "--pixel-threshold", "0.5")
    assert "beginning anew" in other.stderr
    assert kept_of(far / "o.jsonl") == set()


def test_captions_of_tar_shards_go_on_after_a_kill(tmp_path: Path) -> None:
    """Two workers, shards with and without an index: the lines of the same pairs in single files."""
    rows = []
    for number in range(40):
        names = {f"{side}_file_name": f"{number}_{side}.png" for side in ("before", "after")}
        rows.append({"id": f"p{number}", "captions": ["it moved"], **names})
        for side in ("before", "after"):
            (tmp_path / "set" / "val").mkdir(parents=True, exist_ok=True)
            draw(tmp_path / "set" / "val" / f"{number}_{side}.png", 4 + number % 5 * (side == "after"), "red")
    manifest = tmp_path / "set" / "val" / "metadata.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_shards(tmp_path / "set", tmp_path / "shards", pairs_per_shard=9)
    (tmp_path / "shards" / "val-000002.index.json").unlink()
    plain, far = tmp_path / "plain.jsonl", tmp_path / "far.jsonl"
    rest = ("--model", "pixels", "--batch-size", "2", "--out")
    run("caption", "--pairs", manifest, *rest, plain)
    again = ("caption", "--pairs", tmp_path / "shards", *rest, far, "--engine", "ray", "--workers", "2")
    run_until_killed(*again)
    done = run(*again)
    assert done.exit_code == 0, done.exception
    assert re.search("going on, (8|16) of 40 rows are there", done.stderr)
    assert untimed(far) == untimed(plain)


def untimed(path: Path) -> list[str]:
    return re.sub(r'"seconds": [\d.e-]+', "", path.read_text()).splitlines()


@pytest.fixture(scope="module")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pairs."""
    place = tmp_path_factory.mktemp("rows")
    (place / "val").mkdir()
    rows = []
    for number in range(12):
        names = {f"{side}_file_name": f"{number}_{side}.png" for side in ("before", "after")}
        draw(place / "val" / names["before_file_name"], 3, "navy")
        draw(place / "val" / names["after_file_name"], 3 + number, "navy")
        rows.append({"id": f"p{number}", **names, "captions": ["the box moved to the right"]})
    (place / "val" / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def planted(out: Path) -> set[str]:
    items = json.loads(out.read_text())["systems"][0]["items"]
    assert len(items) == 12
    return {name for name, item in items.items() if item["caption"] == "planted"}


def test_evaluate_goes_on_after_a_kill(data_set: Path, tmp_path: Path) -> None:
    def evaluate(place: Path) -> tuple[object, ...]:
        results = ("--out", place / "o.json", "--report", place / "r.html")
        return ("evaluate", "pixels", data_set, "--no-meteor", "--batch-size", "1", *results)

    here, far = tmp_path / "here", tmp_path / "far"
    assert run(*evaluate(here)).exit_code == 0
    run_until_killed(*evaluate(far), *RAY)
    shards = far / "o.json.shards"
    assert not (far / "o.json").exists()
    shutil.copytree(shards, tmp_path / "kept")
    gone_on = run(*evaluate(far), *RAY)
    assert gone_on.exit_code == 0
    assert "going on, " in gone_on.stderr
    assert written(far) == written(here)

    def plant(*, named: bool) -> set[str]:
        shutil.copytree(tmp_path / "kept", shards)
        return change_shard(shards, lambda line: line | {"caption": "planted"}, named=named)

    names = plant(named=True)
    image = data_set / "val" / "1_after.png"
    before = image.read_bytes()
    draw(image, 20, "red")
    run(*evaluate(far), *RAY)
    image.write_bytes(before)
    assert planted(far / "o.json") == names - {"p1"}  # taken, not made, but for the replaced image
    assert len(names) == 4

    plant(named=False)
    run(*evaluate(far), *RAY)  # a damaged shard is made again
    assert written(far) == written(here)
    plant(named=True)
    assert "beginning anew" in run(*evaluate(far), "--decode", "greedy", *RAY).stderr
    assert planted(far / "o.json") == set()


@dataclass(frozen=True, kw_only=True)
class Deadly(AnswerWork):
    """Dies at some rows."""

    deadly: frozenset[str]

    def start(self) -> Callable[[Sequence[Row]], Iterator[dict[str, Any]]]:
        answers = super().start()

        def lines(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
            if self.deadly.intersection(row.id for row in rows):
                os.kill(os.getpid(), signal.SIGKILL)
            return answers(rows)

        return lines


def test_a_row_that_kills_its_worker_has_no_answer_and_others_have_theirs(data_set: Path) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[Deadly.__module__])
    rows = list(read_rows(data_set, "val"))[:3]

    def answered(rows: list[Row], deadly: frozenset[str]) -> Any:
        work = Deadly(
            system="pixels",
            device="cpu",
            runtime="auto",
            model_options={},
            batch_size=1,
            beams=1,
            max_words=32,
            deadly=deadly,
        )
        cluster = ClusterOptions(workers=1)
        return outputs_from_cluster(work, rows, cluster, advance=lambda done: None, kept=None)

    outputs = answered(rows, frozenset(["p1"])).outputs
    assert [output.error is None for output in outputs] == [True, False, True]
    assert "the worker that looked at it died" in outputs[1].error
    with pytest.raises(InputError, match="no row could be answered; the first, 'p0': the worker"):
        answered(rows[:2], frozenset(["p0", "p1"]))  # a worker begins anew after each
