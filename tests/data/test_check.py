"""A sound set passes; every kind of damage is found, counted and named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from spotchange.cli.data import app
from spotchange.data import read_rows
from spotchange.data.check import check_dataset
from spotchange.data.preview import pick_rows, write_preview
from spotchange.errors import DataError, SpotchangeError
from spotchange.images import image_size, read_image

runner = CliRunner()


def change_rows(folder: Path, split: str, change) -> None:
    path = folder / split / "metadata.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = change(lines) or lines
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_sound_set(make_set) -> None:
    report = check_dataset(make_set(scenes=3))
    assert report.ok
    assert report.warnings == []
    train = report.splits["train"]
    assert (train.rows, train.captions, train.captions_per_row) == (6, 9, {"1": 3, "2": 3})
    assert train.change_types == {"color": 3, "none": 3}
    assert train.picture_sizes == {"48x32": 9}
    assert train.words_per_caption == {"min": 4, "mean": 5.3, "max": 7}
    assert report.vocabulary == 8 + 4 + 9  # shared words; "there is no change"; scene numbers
    assert dict(report.most_common_words)["blue"] == 18


def drop(name: str):
    return lambda folder: (folder / "train" / "images" / name).unlink()


def set_value(place: int, **values: object):
    return lambda folder: change_rows(folder, "train", lambda lines: lines[place].update(values))


def add_text(folder: Path) -> None:
    with (folder / "train" / "metadata.jsonl").open("a") as lines:
        lines.write("no json\n")


def cut_image(folder: Path) -> None:
    (folder / "train" / "images" / "000001_same.jpg").write_bytes(b"\xff\xd8\xff\xe0 nothing")


@pytest.mark.parametrize(
    ("damage", "field", "text"),
    [
        (drop("000001_after.jpg"), "missing_files", "000001_after.jpg does not exist"),
        (cut_image, "unreadable_files", "damaged"),
        (set_value(0, captions=["x", ""]), "empty_captions", "metadata.jsonl:1: 'captions' holds an empty caption"),
        (set_value(2, captions=[]), "empty_captions", "metadata.jsonl:3: 'captions' is empty"),
        (add_text, "bad_rows", "metadata.jsonl:7: not JSON"),
        (set_value(1, id="0_change"), None, "several rows '0_change'"),
    ],
)
def test_damage_is_found(make_set, damage, field: str | None, text: str) -> None:
    folder = make_set(scenes=3)
    damage(folder)
    report = check_dataset(folder)
    assert not report.ok
    assert report.problem_count == 1
    assert text in report.problems[0]
    if field is not None:
        assert getattr(report.splits["train"], field) == 1


def test_pixels_are_looked_at_on_request(make_set) -> None:
    folder = make_set(scenes=1)
    path = folder / "val" / "images" / "001000_after.jpg"
    path.write_bytes(path.read_bytes()[:-200])
    assert check_dataset(folder).ok
    assert not check_dataset(folder, decode=True).ok


def test_what_is_odd_but_usable_is_a_warning(make_set) -> None:
    folder = make_set(scenes=2)
    image = folder / "train" / "images" / "000000_before.jpg"
    (folder / "val" / "images" / "001000_before.jpg").unlink()
    (folder / "val" / "images" / "001000_before.jpg").symlink_to(image)
    change_rows(folder, "train", lambda lines: [*lines, lines[0] | {"id": "again"}])
    change_rows(folder, "test", lambda lines: [line | {"camera": 3, "before_boxes": []} for line in lines])
    change_rows(folder, "test", lambda lines: lines[0].update(after_file_name="../train/images/000000_after.jpg"))
    report = check_dataset(folder)
    assert report.ok
    text = " | ".join(report.warnings)
    assert "1 pictures of 'val' are also in 'train'" in text
    assert "1 pictures of 'test' are also in 'train'" in text
    assert "train: 1 rows repeat a pair" in text
    assert "test: 1 file names leave the split's folder" in text
    assert "(before_boxes[][] float, camera int)" in text


def test_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no data set"):
        check_dataset(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        check_dataset(tmp_path / "nowhere")


def test_many_problems_are_counted_not_listed(make_set) -> None:
    folder = make_set(scenes=1)
    (folder / "train" / "metadata.jsonl").write_text("x\n" * 250)
    report = check_dataset(folder)
    assert report.problem_count == 251  # the split has no usable row either
    assert len(report.problems) == 100


def test_command_says_ok_or_exits_with_2(make_set) -> None:
    folder = make_set(scenes=1)
    done = runner.invoke(app, ["check", str(folder)])
    assert done.exit_code == 0
    assert done.stdout.endswith("ok\n")
    as_json = runner.invoke(app, ["check", str(folder), "--json"])
    assert json.loads(as_json.stdout)["splits"]["train"]["rows"] == 2
    drop("000000_after.jpg")(folder)
    broken = runner.invoke(app, ["check", str(folder)])
    assert broken.exit_code == 2
    assert "problem: train: row '0_change'" in broken.stdout
    assert json.loads(runner.invoke(app, ["check", str(folder), "--json"]).stdout)["ok"] is False


def test_preview_draws_pairs_with_boxes(make_set, tmp_path: Path) -> None:
    folder = make_set(scenes=5)
    out = tmp_path / "grid.png"
    done = runner.invoke(app, ["preview", str(folder), "--out", str(out), "--count", "4", "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert len(facts["ids"]) == 4
    sheet = read_image(out)
    assert sheet.size == (facts["width"], facts["height"])
    colors = {color for _, color in sheet.getcolors(1 << 24)}
    assert (0xE0, 0x21, 0x8A) in colors  # the mark of a box
    assert len(colors) > 500  # and real images


def test_preview_shows_what_cannot_be_read_and_refuses_unknown_formats(make_set, tmp_path: Path) -> None:
    folder = make_set(scenes=2)
    rows = list(read_rows(folder, "train"))
    cut_image(folder)
    assert write_preview(rows, tmp_path / "sheet.webp") == image_size(tmp_path / "sheet.webp")
    with pytest.raises(SpotchangeError, match="unknown image format"):
        write_preview(rows, tmp_path / "sheet.xyz")
    with pytest.raises(DataError, match="no pair"):
        write_preview([], tmp_path / "none.png")
    assert [path.name for path in tmp_path.glob("*.*")] == ["sheet.webp"]


def test_rows_are_drawn_evenly_and_repeatably(make_set) -> None:
    rows = list(read_rows(make_set(scenes=10), "train"))
    drawn = [tuple(row.id for row in pick_rows(rows, 5, seed=seed)) for seed in range(40)]
    assert drawn[0] == tuple(row.id for row in pick_rows(rows, 5, seed=0))
    assert {name for names in drawn for name in names} == {row.id for row in rows}
    assert [row.id for row in pick_rows(rows, 99)] == [row.id for row in rows]


def test_list_and_import_commands(make_set, tmp_path: Path) -> None:
    known = json.loads(runner.invoke(app, ["list", "--json"]).stdout)
    assert all(entry["licence"] and entry["where"] and entry["check"] and entry["size"] for entry in known)
    assert "67,660" in runner.invoke(app, ["list"]).stdout
    source = tmp_path / "source"
    source.mkdir()
    rows = [{"uid": "a", "img0": "a.png", "img1": "b.png", "sents": ["brighter"]}]
    for name in ("train", "valid", "test"):
        (source / f"{name}.json").write_text(json.dumps(rows if name == "train" else []))
    (source / "images").mkdir()
    for name in ("a", "b"):
        Image.new("RGB", (8, 8)).save(source / "images" / f"{name}.png")
    command = ["import", "image-editing-request", "--source", str(source)]
    done = runner.invoke(app, [*command, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert f"{tmp_path / 'out'}: train 1 pairs" in done.stdout
    assert "not the whole set, which has train 3,061" in done.stdout
    (source / "images" / "b.png").unlink()
    refused = runner.invoke(app, [*command, "--out", str(tmp_path / "other")])
    assert isinstance(refused.exception, DataError)
    assert "b.png does not exist" in refused.stderr


def test_a_flood_of_problems_is_cut_unless_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    rows = [{"uid": str(n), "img0": f"{n}.png", "img1": "b.png", "sents": ["brighter"]} for n in range(60)]
    for name in ("train", "valid", "test"):
        (source / f"{name}.json").write_text(json.dumps(rows if name == "train" else []))
    command = ["import", "image-editing-request", "--source", str(source), "--out", str(tmp_path / "out")]
    assert runner.invoke(app, command).stderr.count("problem: ") == 50
    assert runner.invoke(app, [*command, "--all-problems"]).stderr.count("problem: ") == 60
