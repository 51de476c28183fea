"""Work on a Ray cluster: the same results as here, whatever happens to the workers."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw
from rich.console import Console
from typer.testing import CliRunner

from spotchange.answering.build import LoadOptions
from spotchange.answering.bulk.on_cluster import CaptionWork, write_from_cluster
from spotchange.answering.bulk.one_machine import pairs_from_manifest
from spotchange.answering.interface import CaptionOptions
from spotchange.cli.main import app
from spotchange.cluster import ClusterOptions, run_on_ray
from spotchange.errors import InputError

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster"), pytest.mark.filterwarnings("ignore")]
ONE, TWO = ClusterOptions(workers=1), ClusterOptions(workers=2)
RAY = ("--engine", "ray", "--workers", "1")  # a worker takes seconds to start: two where that is what is tested


@pytest.fixture(scope="module", autouse=True)
def travels(cluster: None) -> None:
    """Workers cannot import tests, so what is defined here goes to them as it is."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[Squares.__module__])


@dataclass(frozen=True)
class Squares:
    """Squares numbers; dies at some of them, always or only the first time."""

    folder: Path
    deadly: frozenset[int] = frozenset()
    deadly_once: frozenset[int] = frozenset()

    def start(self) -> Callable[[Sequence[int]], Iterator[int | str]]:
        def squares(numbers: Sequence[int]) -> Iterator[int | str]:
            for number in numbers:
                seen = self.folder / str(number)
                if number in self.deadly or (number in self.deadly_once and not seen.exists()):
                    seen.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield number * number

        return squares

    def failed(self, item: int, reason: str) -> str:
        return f"{item}: {reason}"


def test_dying_workers_lose_nothing_and_a_deadly_item_is_an_error(tmp_path: Path) -> None:
    work = Squares(tmp_path, deadly=frozenset([17]), deadly_once=frozenset([3, 31]))
    cut = {number: list(range(5 * number, 5 * number + 5)) for number in range(8)}
    found = list(run_on_ray(work, cut, TWO))
    assert sorted(number for number, _ in found) == list(range(8))  # each once
    results = [each for _, piece in sorted(found) for each in piece]
    assert isinstance(results[17], str)
    assert results[17].startswith("17: the worker that looked at it died")
    assert [each for place, each in enumerate(results) if place != 17] == [n * n for n in range(40) if n != 17]


def test_our_own_mistakes_and_bad_models_reach_the_caller() -> None:
    class Broken:
        def start(self) -> Any:
            raise ZeroDivisionError("ours")

        def failed(self, item: Any, reason: str) -> None:
            raise AssertionError

    with pytest.raises(RuntimeError, match="ZeroDivisionError: ours"):
        list(run_on_ray(Broken(), {0: [1]}, ONE))


def write_pairs(folder: Path, count: int, *, size: tuple[int, int] = (48, 32)) -> Path:
    lines = []
    for number in range(count):
        for side in ("before", "after"):
            image = Image.new("RGB", size, "gray")
            left = 4 + (number % 5) * (side == "after")
            ImageDraw.Draw(image).rectangle((left, 6, left + 12, 20), fill=("red", "blue")[number % 2])
            image.save(folder / f"{number}_{side}.png")
        lines.append({"id": f"p{number}", "before": f"{number}_before.png", "after": f"{number}_after.png"})
    lines.append({"id": "absent", "before": "absent.png", "after": "0_after.png"})
    manifest = folder / "pairs.jsonl"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return manifest


def untimed(path: Path) -> list[str]:
    """The lines of a result file without the one thing that measures a clock."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.pop("seconds", None)
    return [json.dumps(line) for line in lines]


def caption(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["caption", *map(str, arguments)])


@pytest.mark.parametrize(("model", "count"), [("pixels", 70), ("bundled", 9)])
def test_captions_are_the_same_rows_in_the_same_order(tmp_path: Path, model: str, count: int) -> None:
    manifest = write_pairs(tmp_path, count)
    plain, far = tmp_path / "plain.jsonl", tmp_path / "ray.jsonl"
    rest = ("--model", model, "--batch-size", "4", "--threads", "1")
    here = caption("--pairs", manifest, "--out", plain, *rest)
    there = caption("--pairs", manifest, "--out", far, *rest, "--engine", "ray", "--workers", "2")
    for each in (here, there):  # one image is absent, and its line says so
        assert isinstance(each.exception, InputError)
        assert "1 of" in each.exception.message
    assert untimed(far) == untimed(plain)
    assert not (tmp_path / "ray.jsonl.shards").exists()
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text("".join([*lines, lines[0]]))  # an id twice: what is only printed needs none of its own
    told = caption("--pairs", manifest, *rest, "--json", *RAY)
    names = [json.loads(line)["id"] for line in told.stdout.splitlines()]
    assert names == [*(f"p{n}" for n in range(count)), "absent", "p0"]


def test_relative_paths_mean_what_they_mean_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for side in ("before", "after"):
        (tmp_path / side).mkdir()
    write_pairs(tmp_path, 3)
    shutil.copy(tmp_path / "1_before.png", tmp_path / "before" / "a.png")
    shutil.copy(tmp_path / "1_after.png", tmp_path / "after" / "a.png")
    monkeypatch.chdir(tmp_path)  # workers began elsewhere, as those of `ray start` do
    caption("--pairs", "pairs.jsonl", "--model", "pixels", "--out", "far.jsonl", *RAY)
    assert ["error" in line for line in map(json.loads, Path("far.jsonl").read_text().splitlines())] == [False] * 3 + [
        True
    ]
    CliRunner().invoke(app, ["compare", "before", "after", "--diff-dir", "diff", *RAY])
    assert [path.name for path in (tmp_path / "diff").iterdir()] == ["a.png"]


def test_a_run_goes_on_where_it_was_stopped_and_makes_bad_shards_again(tmp_path: Path) -> None:
    manifest = write_pairs(tmp_path, 40)
    pairs = pairs_from_manifest(manifest)[:40]
    work = CaptionWork(model="pixels", load=LoadOptions(), options=CaptionOptions(), batch_size=2, asked="same")
    out = tmp_path / "out.jsonl"

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    def write(**more: Any) -> list[int]:
        made: list[int] = []
        write_from_cluster(work, pairs, out, ONE, **{"advance": made.append} | more)
        return made

    with pytest.raises(KeyboardInterrupt):
        write(advance=stop)
    shards = tmp_path / "out.jsonl.shards"
    assert list(json.loads((shards / "manifest.json").read_text())["shards"]) == ["0"]
    assert not out.exists()
    assert write() == [8] * 5  # of 5 pieces, one is taken from its shard
    whole = untimed(out)
    assert [json.loads(line)["id"] for line in whole] == [pair.id for pair in pairs]

    with pytest.raises(KeyboardInterrupt):
        write(advance=stop, force=True)
    shutil.copytree(shards, tmp_path / "kept")
    text = (shards / "000000.jsonl").read_text()
    (shards / "000000.jsonl").write_text(text.replace("p0", "p9", 1))  # damaged behind our back
    write()
    assert untimed(out) == whole
    assert not shards.exists()


def test_an_image_replaced_between_two_parts_of_a_run_is_answered_anew(tmp_path: Path) -> None:
    pairs = pairs_from_manifest(write_pairs(tmp_path, 24))[:24]
    work = CaptionWork(model="pixels", load=LoadOptions(), options=CaptionOptions(), batch_size=2, asked="same")
    out = tmp_path / "out.jsonl"

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_from_cluster(work, pairs, out, None, advance=stop)
    shard = tmp_path / "out.jsonl.shards" / "000000.jsonl"
    made = [json.loads(line) for line in shard.read_text().splitlines()]
    number = [line["changed"] for line in made].index(True)
    shutil.copy(pairs[number].before, pairs[number].after)
    write_from_cluster(work, pairs, out, None, advance=lambda done: None)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == 24
    assert not lines[number]["changed"]
    assert [line for line in lines[: len(made)] if line["id"] != pairs[number].id] == made[:number] + made[number + 1 :]


def test_lines_of_a_finished_file_are_used_again_where_nothing_changed(tmp_path: Path) -> None:
    manifest = write_pairs(tmp_path, 10)
    out = tmp_path / "out.jsonl"
    rest = ("--pairs", manifest, "--out", out, "--model", "pixels", *RAY)
    caption(*rest)
    marked = [json.loads(line) | {"seconds": 99.0} for line in out.read_text().splitlines()[:-1]]
    out.write_text("".join(json.dumps(line) + "\n" for line in marked))
    shutil.copy(tmp_path / "0_before.png", tmp_path / "3_after.png")
    caption(*rest)
    seconds = [json.loads(line).get("seconds") for line in out.read_text().splitlines()]
    assert [place for place, each in enumerate(seconds) if each != 99.0] == [3, 10]  # the changed one, and the absent


def test_bad_addresses_and_missing_gpus_are_one_line(tmp_path: Path) -> None:
    manifest = write_pairs(tmp_path, 1)
    rest = ("--pairs", manifest, "--model", "pixels")
    assert "need --engine ray" in str(caption(*rest, "--address", "127.0.0.1:1").exception)
    gpu = ("--engine", "ray", "--gpus-per-worker", "1")
    assert "no GPU" in str(caption(*rest, *gpu).exception)
    for side in ("before", "after"):
        (tmp_path / side).mkdir()
        shutil.copy(tmp_path / f"0_{side}.png", tmp_path / side / "a.png")
    (tmp_path / "after" / "a.png").write_bytes((tmp_path / "after" / "a.png").read_bytes() + b" ")
    compared = CliRunner().invoke(app, ["compare", str(tmp_path / "before"), str(tmp_path / "after"), *gpu])
    assert "no GPU" in str(compared.exception)


def test_the_benchmark_of_the_documented_figures_runs(tmp_path: Path) -> None:
    place = Path(__file__).parents[2] / "benchmarks" / "ray_speed.py"
    found = importlib.util.spec_from_file_location("ray_speed", place)
    assert found is not None
    assert found.loader is not None
    speed = importlib.util.module_from_spec(found)
    sys.modules["ray_speed"] = speed
    found.loader.exec_module(speed)
    ray.cloudpickle.register_pickle_by_value(speed)
    work = CaptionWork(model="pixels", load=LoadOptions(threads=1), options=CaptionOptions(), batch_size=speed.BATCH)
    pairs = speed.write_pairs(tmp_path, 2 * speed.BATCH, (32, 24))
    clocks = speed.on_ray(work, pairs, 1)
    assert set(clocks) == {"start_s", "wall_s", "cpu_s", "busiest_worker_s", "driver_cpu_s"}
    assert min(clocks.values()) >= 0


def test_one_bar_tells_pairs_a_second_and_the_time_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        "spotchange.cli.output.notes", lambda: Console(file=screen, force_terminal=True, width=100, highlight=False)
    )
    manifest = write_pairs(tmp_path, 40)
    rest = ("--model", "pixels", "--batch-size", "2", *RAY)
    caption("--pairs", manifest, "--out", tmp_path / "out.jsonl", *rest)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert re.search(r"pairs .*41/41 \d+\.\d pairs/s 0:00:00", shown), shown
    assert "Dataset" not in shown  # none of Ray's own
