"""Data sets on disk: the same bytes for the same seed, whole after any interruption, and nothing mixed."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spotchange.config.scenes import DatasetPlan, SceneSettings
from spotchange.data.metadata import read_rows
from spotchange.errors import ConfigError, InputError
from spotchange.images import read_image
from spotchange.language.checker import check
from spotchange.locks import one_writer
from spotchange.pairs import CHANGE_TYPES
from spotchange.scene import AFTER, BEFORE
from spotchange.scenes.dataset import generate_split
from spotchange.scenes.export import _iou, mean_iou, object_boxes
from spotchange.scenes.rendering.renderer import QUALITIES, Quality, render
from spotchange.scenes.sampler import World


def plan(**changes: Any) -> DatasetPlan:
    values: dict[str, Any] = {"seed": 4, "width": 48, "height": 32, "quality": "fast"}
    return DatasetPlan.from_mapping(values | changes, source="test")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made")
    generate_split(plan(masks=True), out=out, scenes=10)
    return out


def test_rows_hold_all_that_is_known(made: Path) -> None:
    rows = list(read_rows(made, "train"))
    assert [row.id for row in rows[:4]] == ["000000c", "000000n", "000001c", "000001n"]
    assert len(rows) == 20
    for change, distractor in zip(rows[::2], rows[1::2], strict=True):
        assert change.before_path == distractor.before_path
        assert change.scene_id == distractor.scene_id
        assert change.change_type in CHANGE_TYPES[1:]
        assert distractor.change_type == "none"
        assert distractor.facts == {}
        assert distractor.before_boxes == distractor.after_boxes == ()
        assert len(change.before_boxes or ()) == (change.change_type != "add")
        assert len(change.after_boxes or ()) == (change.change_type != "drop")
        assert set(change.facts["target"]) == {"shape", "size", "color", "material"}
        assert ("new" in change.facts) == (change.change_type in ("color", "texture"))
        for row in (change, distractor):
            assert len(set(row.captions)) == len(row.captions) == 6
            assert 0 <= row.extra["iou"] < 1
            assert read_image(row.after_path).size == (48, 32)


def test_boxes_and_masks_agree(made: Path) -> None:
    for row in list(read_rows(made, "train"))[::2]:
        mask = np.asarray(read_image(row.mask_path))[..., 0] > 0
        covered = np.zeros_like(mask)
        for x, y, width, height in (*row.before_boxes, *row.after_boxes):
            covered[int(y) : int(y + height), int(x) : int(x + width)] = True
        assert mask.any()
        assert not (mask & ~covered).any()


def test_difficulty_is_spread_as_in_the_original(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Which object a pixel shows does not depend on the light, which takes more than half of the time.
    dark = Quality(samples=4, bounces=1, broad_rays=1, shadow_cells=8, shadow_samples=4, bounced_cells=8, rays=4)
    monkeypatch.setitem(QUALITIES, "dark", dark)
    official = json.loads((shared / "data/annotations/clevr_change/change_captions_by_IOU.json").read_text())
    scenes = World(SceneSettings(), seed=1).scenes(np.arange(300))  # of 100, quartiles stray by as much as is allowed
    ids = render(scenes, width=240, height=160, quality="dark", views=(BEFORE, AFTER)).ids
    ours = [mean_iou(scenes, scene, object_boxes(ids[scene]), AFTER) for scene in range(len(scenes))]
    quartiles = [0.25, 0.5, 0.75]
    assert np.quantile(ours, quartiles) == pytest.approx(np.quantile(list(official.values()), quartiles), abs=0.05)


@pytest.mark.parametrize(("moved", "overlap"), [(0, 1.0), (10, 1 / 3), (20, 0.0), (40, 0.0)])
def test_overlap_of_boxes(moved: int, overlap: float) -> None:
    assert _iou(np.array([0, 0, 20, 8]), np.array([moved, 0, 20, 8])) == pytest.approx(overlap)


def test_scene_lines_tell_the_whole_scene(made: Path) -> None:
    scenes = [json.loads(line) for line in (made / "train" / "scenes.jsonl").read_text().splitlines()]
    rows = list(read_rows(made, "train"))[::2]
    assert [scene["id"] + "c" for scene in scenes] == [row.id for row in rows]
    for scene, row in zip(scenes, rows, strict=True):
        assert len(scene["before"]) == row.facts["n_objects"]
        assert len(scene["after"]) - len(scene["before"]) == {"add": 1, "drop": -1}.get(row.change_type, 0)
        assert set(scene["cameras"]) == {"before", "after", "same"}
        assert set(scene["lamp_offsets"]) == {"Lamp_Key", "Lamp_Back", "Lamp_Fill"}
        known = scene["after"] if row.change_type == "add" else scene["before"]
        assert row.facts["target"] in [{name: thing[name] for name in row.facts["target"]} for thing in known]


def test_every_caption_is_correct_of_the_scene_as_written(made: Path) -> None:
    scenes = [json.loads(line) for line in (made / "train" / "scenes.jsonl").read_text().splitlines()]
    for place, row in enumerate(read_rows(made, "train")):
        for caption in row.captions:
            verdict = check(caption, scenes[place // 2], distractor=row.change_type == "none")
            assert verdict.correct, (row.id, caption, verdict.reason)


def test_the_same_seed_gives_the_same_bytes(made: Path, tmp_path: Path) -> None:
    generate_split(plan(masks=True), out=tmp_path, scenes=10)
    assert contents(tmp_path) == contents(made)


def test_another_seed_or_split_gives_other_scenes(made: Path, tmp_path: Path) -> None:
    generate_split(plan(seed=5), out=tmp_path, scenes=1)
    generate_split(plan(split="val"), out=tmp_path, scenes=1)
    first = [
        (folder / "images" / "000000_before.png").read_bytes() for folder in (tmp_path / "train", tmp_path / "val")
    ]
    first.append((made / "train" / "images" / "000000_before.png").read_bytes())
    assert len(set(first)) == 3


def test_shards_make_the_same_scenes(made: Path, tmp_path: Path) -> None:
    generate_split(plan(masks=True), out=tmp_path, scenes=3, start=4)
    shard, whole = contents(tmp_path), contents(made)
    assert {name: whole[name] for name in shard if name.endswith(".png")} == {
        name: shard[name] for name in shard if name.endswith(".png")
    }
    assert shard["train/metadata.jsonl"] in whole["train/metadata.jsonl"]


def test_going_on_after_any_cut_gives_the_same_bytes(made: Path, tmp_path: Path) -> None:
    generate_split(plan(masks=True), out=tmp_path, scenes=4)
    rows = tmp_path / "train" / "metadata.jsonl"
    os.truncate(rows, rows.stat().st_size - 30)  # a line cut by a power failure
    told = []
    written = generate_split(plan(masks=True), out=tmp_path, scenes=10, on_pairs=told.append)
    assert contents(tmp_path) == contents(made)
    assert written.new_pairs == 14
    assert sum(told) == written.pairs == 20


def test_missing_and_empty_images_are_drawn_again(made: Path, tmp_path: Path) -> None:
    generate_split(plan(masks=True), out=tmp_path, scenes=10)
    images = tmp_path / "train" / "images"
    (images / "000003_after.png").unlink()
    (images / "000005_same.png").write_bytes(b"")
    (images / ".000005_same.ab12cd34.png").write_bytes(b"half")  # of a killed run
    assert generate_split(plan(masks=True), out=tmp_path, scenes=10).new_pairs == 0
    assert contents(tmp_path) == contents(made)


def test_only_one_process_writes_a_split(made: Path) -> None:
    whole = contents(made)
    with one_writer(made / "train"), pytest.raises(InputError, match="is being written by process"):
        generate_split(plan(masks=True), out=made, scenes=10)
    assert contents(made) == whole


@pytest.mark.parametrize("foreign", ["[]", "{}", "no json", '{"id": 7, "change_type": "add"}', "[" * 100_000])
def test_foreign_lines_are_named_and_nothing_is_cut(tmp_path: Path, foreign: str) -> None:
    generate_split(plan(), out=tmp_path, scenes=2)
    rows = tmp_path / "train" / "metadata.jsonl"
    rows.write_text(rows.read_text() + f"{foreign}\n{foreign}\n")
    whole = contents(tmp_path)
    with pytest.raises(InputError, match=r"metadata.jsonl:5 does not continue this data set"):
        generate_split(plan(), out=tmp_path, scenes=3)
    assert contents(tmp_path) == whole


def test_what_two_writers_left_is_not_cut(tmp_path: Path) -> None:
    """Found by an attack: two processes in one folder left every id twice, and the next run cut the scenes' file."""
    generate_split(plan(), out=tmp_path, scenes=2)
    for name in ("metadata.jsonl", "scenes.jsonl"):
        file = tmp_path / "train" / name
        file.write_text(2 * file.read_text())
    whole = contents(tmp_path)
    with pytest.raises(InputError, match="does not continue"):
        generate_split(plan(), out=tmp_path, scenes=3)
    assert contents(tmp_path) == whole


def test_a_finished_data_set_is_left_alone(made: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    assert generate_split(plan(masks=True), out=made, scenes=10).new_pairs == 0
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*.png")}.items() <= before.items()


def test_other_settings_are_not_mixed_in(made: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="another seed \\(4, not 9\\)"):
        generate_split(plan(seed=9, masks=True), out=made, scenes=10)
    foreign = tmp_path / "train"
    foreign.mkdir()
    (foreign / "metadata.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="something else"):
        generate_split(plan(), out=tmp_path, scenes=1)
    assert (foreign / "metadata.jsonl").read_text() == "{}\n"


def test_a_full_disk_leaves_whole_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate_split(plan(), out=tmp_path, scenes=2)
    real_write = Path.write_bytes

    def write(path: Path, content: bytes) -> int:
        if "000009_after" in path.name:
            real_write(path, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real_write(path, content)

    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(InputError, match="No space left"):
        generate_split(plan(), out=tmp_path, scenes=12)
    rows = list(read_rows(tmp_path, "train"))
    assert len(rows) >= 4
    assert len(rows) % 2 == 0
    assert not list(tmp_path.rglob(".*")), "no half-written file stays"


def test_a_failing_append_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate_split(plan(), out=tmp_path, scenes=2)
    good = contents(tmp_path)
    calls = []

    def fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 2:  # the scenes' lines are written, those of the rows fail
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(InputError, match="No space left"):
        generate_split(plan(), out=tmp_path, scenes=3)
    for name in ("train/metadata.jsonl", "train/scenes.jsonl"):
        assert contents(tmp_path)[name] == good[name]


def test_interrupted_work_leaves_a_valid_data_set(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spotchange", "generate", "--pairs", "4000", "--out", str(tmp_path)]
    # A shell that runs the tests in the background has it ignored, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen([*command, "--size", "48x32", "--quality", "fast"], stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    rows = tmp_path / "train" / "metadata.jsonl"
    waited = time.monotonic()
    sizes: set[int] = set()
    while len(sizes) < 2:  # an interrupted first write would rightly leave nothing
        if rows.exists() and rows.stat().st_size:
            sizes.add(rows.stat().st_size)
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() - waited < 600
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in complaint
    found = list(read_rows(tmp_path, "train"))
    assert found
    assert len(found) % 2 == 0
    assert len(found) < 4000


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"width": 8}, "width"),
        ({"references": 5}, "references"),
        ({"references": 12}, "references"),
        ({"quality": "best"}, "quality"),
        ({"split": "dev"}, "split"),
    ],
)
def test_impossible_plans_are_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        plan(**values)


def test_room_is_checked_before_anything_is_written(tmp_path: Path) -> None:
    crowded = SceneSettings(min_objects=9, area=1.6)
    with pytest.raises(ConfigError, match="no room"):
        generate_split(plan(scenes=crowded.model_dump(mode="json")), out=tmp_path / "set", scenes=1)
    assert not (tmp_path / "set").exists()
