"""Rows written are rows read, by us and by Hugging Face datasets; each bad line is named and countable."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotchange.data import Row, RowProblem, list_splits, read_manifest, read_rows, write_rows
from spotchange.data.metadata import parse_row
from spotchange.errors import DataError


def test_rows_come_back_as_written(make_set) -> None:
    folder = make_set(scenes=2)
    rows = list(read_rows(folder, "train"))
    assert [row.id for row in rows] == ["0_change", "0_same", "1_change", "1_same"]
    assert rows[0].before_path == folder / "train" / "images" / "000000_before.jpg"
    assert rows[0].before_path.is_file()
    assert rows[0].mask_path is None
    assert rows[0].facts == {"target": {"shape": "cube", "size": "small", "color": "red", "material": "metal"}} | {
        "new": "blue"
    }
    assert rows[1].change_type == "none"
    assert rows[1].after_boxes == ()
    copy = folder / "again.jsonl"
    assert write_rows(copy, rows) == 4
    assert copy.read_bytes() == (folder / "train" / "metadata.jsonl").read_bytes()


def test_other_columns_are_kept(tmp_path: Path) -> None:
    line = '{"id": 7, "before_file_name": "a.png", "after_file_name": "b.png", "captions": ["c"], "camera": [1, 2]}'
    row = parse_row(line, tmp_path)
    assert row.id == "7"
    assert row.extra == {"camera": [1, 2]}
    assert row.to_dict()["camera"] == [1, 2]


def test_splits(make_set, tmp_path: Path) -> None:
    folder = make_set(scenes=1, splits=("val", "train", "extra"))
    assert list_splits(folder) == ["train", "val", "extra"]
    with pytest.raises(DataError, match="no split 'test'") as caught:
        read_rows(folder, "test")
    assert caught.value.hint == "splits there: train, val, extra"
    with pytest.raises(DataError, match="does not exist"):
        list_splits(tmp_path / "nowhere")


GOOD = {"id": "a", "before_file_name": "b.jpg", "after_file_name": "c.jpg", "captions": ["x"]}
BAD = [
    (b"{", "not JSON"),
    (b"[1]", "must be an object"),
    (b'{"id": "\xff"}', "not UTF-8"),
    (GOOD | {"id": None}, "'id' is missing"),
    (GOOD | {"id": True}, "'id' must be text"),
    (GOOD | {"id": " "}, "'id' must be text"),
    (GOOD | {"before_file_name": None}, "'before_file_name' is missing"),
    (GOOD | {"after_file_name": 3}, "'after_file_name' must be text"),
    (GOOD | {"captions": None}, "'captions' is missing"),
    (GOOD | {"captions": "x"}, "must be a list"),
    (GOOD | {"captions": []}, "'captions' is empty"),
    (GOOD | {"captions": ["x", " "]}, "empty caption"),
    (GOOD | {"captions": ["x", 3]}, "not text"),
    (GOOD | {"change_type": 4}, "'change_type' must be text"),
    (GOOD | {"facts": "red"}, "'facts' must be an object"),
    (GOOD | {"before_boxes": [[1, 2, 3]]}, "width, height"),
    (GOOD | {"after_boxes": [[1, 2, 3, float("nan")]]}, "width, height"),
    (GOOD | {"after_boxes": [[1, 2, -3, 4]]}, "width, height"),
    (GOOD | {"scene_id": [1]}, "'scene_id'"),
    (GOOD | {"mask_file_name": "absent.png"}, "absent.png does not exist"),
    (GOOD | {"before_file_name": "absent.jpg"}, "absent.jpg does not exist"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD)
def test_each_bad_line_is_named_and_can_be_skipped(
    bad: bytes | dict[str, object], reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    for name in ("b.jpg", "c.jpg"):
        (folder / name).write_bytes(b"present")
    good = json.dumps(GOOD).encode()
    line = bad if isinstance(bad, bytes) else json.dumps(bad).encode()
    (folder / "metadata.jsonl").write_bytes(good + b"\n\n" + line + b"\n" + good + b"\n")
    with pytest.raises(DataError, match=reason) as caught:
        list(read_rows(tmp_path, "train"))
    assert caught.value.message.startswith(f"{folder / 'metadata.jsonl'}:3: ")
    assert "\n" not in caught.value.message

    problems: list[RowProblem] = []
    reader = read_rows(tmp_path, "train", skip_bad=True, on_problem=problems.append)
    assert len(list(reader)) == 2
    assert reader.bad == len(problems) == 1
    assert problems[0].line == 3
    with caplog.at_level(logging.WARNING):
        list(read_rows(tmp_path, "train", skip_bad=True))
    assert "metadata.jsonl:3" in caplog.text


def test_files_need_not_be_checked(tmp_path: Path) -> None:
    write_rows(tmp_path / "val" / "metadata.jsonl", [parse_row(json.dumps(GOOD), tmp_path)])
    assert len(list(read_rows(tmp_path, "val", check_files=False))) == 1


def test_a_manifest_needs_no_captions(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('﻿{"id": "a", "before_file_name": "x/b.png", "after_file_name": "/tmp/c.png"}\n')
    (row,) = read_manifest(path)
    assert row.captions == ()
    assert row.before_path == tmp_path / "x" / "b.png"
    assert row.after_path == Path("/tmp/c.png")
    with pytest.raises(DataError, match="does not exist"):
        read_manifest(tmp_path / "absent.jsonl")
    with pytest.raises(DataError, match="not a file"):
        read_manifest(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "metadata.jsonl"
    row = parse_row(json.dumps(GOOD), tmp_path)
    write_rows(path, [row])

    def broken():
        yield row
        raise DataError("no more")

    with pytest.raises(DataError, match="no more"):
        write_rows(path, broken())
    assert len(list(read_manifest(path))) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["metadata.jsonl"]


names = st.text(min_size=1).filter(lambda text: bool(text.strip()) and "\0" not in text)
boxes = st.lists(st.tuples(*[st.floats(0, 1e6)] * 4)).map(tuple)


@settings(deadline=None)
@given(
    st.builds(
        Row,
        id=names,
        before_file_name=names,
        after_file_name=names,
        captions=st.lists(names, min_size=1).map(tuple),
        change_type=st.none() | names,
        facts=st.none() | st.dictionaries(names, names),
        before_boxes=st.none() | boxes,
        after_boxes=st.none() | boxes,
        mask_file_name=st.none() | names,
        scene_id=st.none() | st.integers() | names,
        extra=st.dictionaries(names.map("x_{}".format), st.integers()),
        folder=st.just(Path()),
    )
)
def test_any_row_survives_the_file(row: Row) -> None:
    assert parse_row(json.dumps(row.to_dict()), Path()) == row


@settings(deadline=None)
@given(st.binary(max_size=60) | st.recursive(st.none() | st.text(), st.lists).map(lambda x: json.dumps(x).encode()))
def test_any_line_is_a_row_or_a_data_error(line: bytes) -> None:
    with contextlib.suppress(DataError):
        assert isinstance(parse_row(line, Path()), Row)


def test_hugging_face_datasets_reads_the_folder(make_set, tmp_path: Path) -> None:
    """In a process of its own, because datasets reads its cache folder and offline switch when imported."""
    folder = make_set(scenes=3)
    program = """
import json, sys
from datasets import load_dataset
found = load_dataset("imagefolder", data_dir=sys.argv[1])
row = found["train"][0]
print(json.dumps({
    "splits": {name: len(part) for name, part in found.items()},
    "columns": sorted(found["train"].column_names),
    "size": row["before"].size, "kinds": [type(row[side]).__name__ for side in ("before", "after")],
    "captions": row["captions"], "boxes": row["after_boxes"], "none": found["train"][1]["change_type"],
}))
"""
    environment = os.environ | {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["splits"] == {"train": 6, "validation": 6, "test": 6}
    assert {"id", "before", "after", "captions", "change_type", "facts"} <= set(found["columns"])
    assert found["size"] == [48, 32]
    assert found["kinds"] == ["JpegImageFile"] * 2
    assert found["captions"] == ["the small red metal cube turned blue", "the cube became blue 0"]
    assert found["boxes"] == [[6.0, 4.0, 12.0, 8.0]]
    assert found["none"] == "none"


def test_reading_rows_needs_no_torch() -> None:
    program = "import sys, spotchange.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
