"""`spotchange caption` as users run it, with the model that ships."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from spotchange.cli.main import app
from spotchange.data.shards import unpack_shards, write_shards
from spotchange.drawing import GAP, MARK
from spotchange.errors import InputError

EXAMPLES = Path(str(resources.files("spotchange"))) / "assets" / "examples"


def example(name: str) -> tuple[str, str]:
    """The two images of a bundled example."""
    (before,) = EXAMPLES.glob(f"*{name}_before.*")
    (after,) = EXAMPLES.glob(f"*{name}_after.*")
    return str(before), str(after)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["caption", *map(str, arguments)])


def test_the_sentence_is_all_of_stdout_and_true() -> None:
    done = run(*example("gone"))
    assert done.exit_code == 0
    words = done.stdout.strip()
    assert "\n" not in words
    assert any(verb in words for verb in ("disappeared", "missing", "gone", "no longer"))


def test_json_follows_the_schema_and_the_heat_map_is_an_image(tmp_path: Path) -> None:
    done = run(*example("colour"), "--json", "--heatmap", tmp_path / "heat.png")
    result = json.loads(done.stdout)
    assert next(iter(result)) == "schema_version"
    assert set(result) == {
        "schema_version", "caption", "changed", "change_score", "change_type", "alternatives", "differences",
        "regions",
        "familiarity", "source", "warnings", "model", "seconds", "identical", "preset", "findings", "diff_pixels",
        "diff_ratio", "largest_difference",
    }  # fmt: skip
    assert (result["changed"], result["change_type"], result["source"]) == (True, "color", "model")
    assert {region["image"] for region in result["regions"]} == {"before", "after"}
    with Image.open(tmp_path / "heat.png") as image:
        colours = {colour for _, colour in image.getcolors(image.width * image.height)}
        assert MARK in colours  # the regions are framed
        assert image.width == 2 * 480 + 3 * GAP


def test_a_moved_camera_is_no_change() -> None:
    done = run(*example("camera_moved"), "--json", "--fail-on-change")
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert (result["changed"], result["change_type"], result["regions"]) == (False, "none", [])


def test_fail_on_change_exits_with_1() -> None:
    assert run(*example("something_moved"), "--fail-on-change").exit_code == 1


def test_the_same_file_twice_is_identical() -> None:
    before, _ = example("colour")
    result = json.loads(run(before, before, "--json").stdout)
    assert (result["changed"], result["change_score"], result["source"]) == (False, 0.0, "pixels")


def test_folders_and_manifests_give_a_line_a_pair(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
    for name in ("gone", "colour"):
        for side, source in zip(("a", "b"), example(name), strict=True):
            Image.open(source).resize((150, 100)).save(tmp_path / side / f"{name}.png")
    Image.new("RGB", (9, 9)).save(tmp_path / "a" / "alone.png")
    told = run(tmp_path / "a", tmp_path / "b", "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in told] == ["colour.png", "gone.png"]
    plain = run(tmp_path / "a", tmp_path / "b").stdout.splitlines()
    assert plain == [f"{line['id']}: {line['caption']}" for line in map(json.loads, told)]
    manifest = tmp_path / "pairs.jsonl"
    rows = [{"id": n, "before_file_name": f"a/{n}.png", "after_file_name": f"b/{n}.png"} for n in ("gone", "colour")]
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("--pairs", manifest, "--out", tmp_path / "out.jsonl").exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["gone", "colour"]
    assert not (tmp_path / "out.jsonl.partial").exists()


def write_set(folder: Path, pairs: int) -> Path:
    (folder / "val").mkdir(parents=True)
    rows = []
    for number in range(pairs):
        for side in ("before", "after"):
            image = Image.new("RGB", (48, 32), "gray")
            image.paste("red", (4 + number * (side == "after"), 6, 18 + number, 20))
            image.save(folder / "val" / f"{number}_{side}.png")
        names = {f"{side}_file_name": f"{number}_{side}.png" for side in ("before", "after")}
        rows.append({"id": f"p{number}", "captions": ["it moved"], **names})
    (folder / "val" / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def untimed(path: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def test_tar_shards_give_the_lines_of_the_set_they_hold(tmp_path: Path) -> None:
    write_shards(write_set(tmp_path / "set", 7), tmp_path / "shards", pairs_per_shard=3)
    unpack_shards(tmp_path / "shards", tmp_path / "again")
    packed, plain, rest = tmp_path / "packed.jsonl", tmp_path / "plain.jsonl", ("--model", "pixels", "--out")
    assert run("--pairs", tmp_path / "again" / "val" / "metadata.jsonl", *rest, plain).exit_code == 0
    assert run("--pairs", tmp_path / "shards", *rest, packed).exit_code == 0
    assert untimed(packed) == untimed(plain)  # fingerprints included: the images are the same bytes

    shard = tmp_path / "shards" / "val-000001.tar"
    whole = shard.read_bytes()
    first = json.loads(shard.with_suffix(".index.json").read_text())["pairs"][1]["after"][1]
    shard.write_bytes(whole[: first + 40] + b"?" + whole[first + 41 :])
    damaged = run("--pairs", tmp_path / "shards" / "val-*.tar", *rest, packed)
    assert isinstance(damaged.exception, InputError)
    errors = {line["id"]: line["error"] for line in untimed(packed) if "error" in line}
    assert list(errors) == ["p4"]
    assert "val-000001.tar/00000004.after.png" in str(errors["p4"])
    shard.write_bytes(whole)
    assert run("--pairs", tmp_path / "shards", *rest, packed).exit_code == 0
    assert untimed(packed) == untimed(plain)


def test_shards_that_cannot_be_captioned_are_one_line(tmp_path: Path) -> None:
    write_shards(write_set(tmp_path / "set", 2), tmp_path / "shards")
    shard = tmp_path / "shards" / "val-000000.tar"
    (tmp_path / "twice").mkdir()
    for number in (0, 1):
        (tmp_path / "twice" / f"val-00000{number}.tar").write_bytes(shard.read_bytes())
    (tmp_path / "cut.tar").write_bytes(shard.read_bytes()[:3000])
    os.mkfifo(tmp_path / "pipe.tar")
    for place, reason in {
        "absent.tar": "absent.tar",
        "absent-*.tar": "no shard matches",
        "set": "holds no shards",
        "cut.tar": "cut.tar is not a sound tar file",
        "pipe.tar": "is not a file",
        "twice": "two pairs have the same id, 'p0'",
    }.items():
        done = run("--pairs", tmp_path / place, "--model", "pixels", "--out", tmp_path / "out.jsonl")
        assert isinstance(done.exception, InputError), place
        assert reason in done.exception.message
        assert not (tmp_path / "out.jsonl").exists()
    done = run("--pairs", tmp_path / "shards", "--model", "pixels", "--out", shard)
    assert isinstance(done.exception, InputError)
    assert "is one of the inputs" in done.exception.message


def test_one_bad_pair_does_not_stop_the_rest_and_a_second_run_repairs_it(tmp_path: Path) -> None:
    before, after = example("gone")
    rows = [
        {"id": "good", "before_file_name": before, "after_file_name": after},
        {"id": "bad", "before_file_name": before, "after_file_name": str(tmp_path / "late.jpg")},
    ]
    manifest, out = tmp_path / "pairs.jsonl", tmp_path / "out.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "late.jpg").write_bytes(b"not a picture")
    first = run("--pairs", manifest, "--out", out)
    assert isinstance(first.exception, InputError)
    assert "1 of 2 pairs failed" in first.exception.message
    good, bad = (json.loads(line) for line in out.read_text().splitlines())
    assert good["changed"] is True
    assert set(bad) == {"id", "error"}
    (tmp_path / "late.jpg").write_bytes(Path(after).read_bytes())
    assert run("--pairs", manifest, "--out", out).exit_code == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[0] == good  # not computed again: even its time is the same
    assert lines[1]["caption"] == good["caption"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.png"], "two images are needed"),
        (["a.png", "b.png", "--pairs", "p.jsonl"], "not both"),
        (["a.png", "b.png", "--out", "r.jsonl"], "--out is for many pairs"),
        (["a.png", "b.png", "--ignore", "1,2,3"], "--ignore"),
        (["a.png", "b.png", "--ignore", "1,2,0,4"], "--ignore"),
        (["a.png", "b.png", "--device", "abacus"], "device"),
    ],
)
def test_contradictions_are_refused(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert isinstance(done.exception, InputError)
    assert message in done.exception.message


@pytest.mark.parametrize("name", ["pairs.jsonl", "notes.txt", "before.png", "other.jsonl"])
def test_files_that_hold_no_results_are_not_written_over(tmp_path: Path, name: str) -> None:
    for path, source in zip(("before.png", "after.png"), example("colour"), strict=True):
        Image.open(source).save(tmp_path / path)
    manifest = tmp_path / "pairs.jsonl"
    manifest.write_text('{"id": "a", "before_file_name": "before.png", "after_file_name": "after.png"}\n')
    (tmp_path / "notes.txt").write_text("my notes\n")
    (tmp_path / "other.jsonl").write_text('{"id": "a", "before_file_name": "x.png", "after_file_name": "y.png"}\n')
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = run("--pairs", manifest, "--out", tmp_path / name)
    assert isinstance(done.exception, InputError), done.output
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
    forced = run("--pairs", manifest, "--out", tmp_path / name, "--force")
    if name in ("pairs.jsonl", "before.png"):  # what is read is never written over
        assert isinstance(forced.exception, InputError)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
    else:
        assert forced.exit_code == 0
        assert json.loads((tmp_path / name).read_text())["caption"]


def test_the_heat_map_is_not_written_over_an_image(tmp_path: Path) -> None:
    before, after = example("colour")
    done = run(before, after, "--heatmap", after)
    assert isinstance(done.exception, InputError)
    assert "one of the images" in done.exception.message


def test_the_home_folder_may_be_read_only(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("XDG", "HF_"))} | {"HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "spotchange", "caption", *example("gone")],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert list(home.iterdir()) == []
