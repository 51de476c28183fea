import json
import re
import shutil
import struct

import pytest
import torch
from PIL import Image

from spotchange.data import read_rows
from spotchange.errors import DataError, ImageError, InputError
from spotchange.everyday.collecting import add_backgrounds, add_objects
from spotchange.everyday.dataset import PLAN, EverydayPlan, generate_everyday
from spotchange.everyday.library import LEVELS, OBJECTS, SIDE, TILES, bundled_library, read_library
from spotchange.locks import one_writer


def test_names_come_from_files_and_folders(tmp_path):
    things = tmp_path / "things"
    (things / "plastic bottle").mkdir(parents=True)
    image = Image.new("RGBA", (40, 40), (255, 0, 0, 255))
    for name in ("mug_01.png", "plastic bottle/7.png", "zyzzyva.png"):
        image.save(things / name)
    added = add_objects(things, tmp_path / "library")
    assert added.nouns == {"mug": 1, "plastic bottle": 1, "without a name": 1}
    assert added.unknown == ("zyzzyva.png",)
    rows = [json.loads(line) for line in (tmp_path / "library" / "objects.jsonl").read_text().splitlines()]
    assert rows[0]["colour"] == "red"
    add_objects(things, tmp_path / "library")  # a second time: appended
    assert len((tmp_path / "library" / "objects.jsonl").read_text().splitlines()) == 6


def test_an_image_without_transparency_is_refused(tmp_path):
    Image.new("RGB", (40, 40)).save(tmp_path / "mug.png")
    with pytest.raises(DataError, match="no transparency"):
        add_objects(tmp_path, tmp_path / "library")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no PNG or WebP"):
        add_objects(tmp_path / "empty", tmp_path / "library")


def test_damaged_cut_outs_and_lists_are_one_line(tmp_path):
    image = Image.new("RGBA", (40, 40), (255, 0, 0, 255))
    image.save(tmp_path / "mug.png")
    whole = (tmp_path / "mug.png").read_bytes()
    header = struct.pack(">II", 60_000, 60_000)
    for content in (whole[:60], whole[:16] + header + whole[24:], b"", b"text"):
        (tmp_path / "mug.png").write_bytes(content)
        with pytest.raises(ImageError, match=r"mug\.png"):
            add_objects(tmp_path, tmp_path / "library")
    (tmp_path / "mug.png").write_bytes(whole)
    for text in ("[" * 100_000, "1", "{}", '{"file_name": []}'):
        (tmp_path / "metadata.jsonl").write_text(text)
        with pytest.raises(DataError, match=r"metadata\.jsonl"):
            add_objects(tmp_path, tmp_path / "library")
    assert not (tmp_path / "library").exists()
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="no photos"):
        add_backgrounds(tmp_path / "none", tmp_path / "library")


def test_a_damaged_library_is_one_line(library_folder, tmp_path):
    damages = {TILES: lambda content: content[:40], OBJECTS: lambda content: b"[]\n" + content}
    for name, damage in damages.items():
        folder = tmp_path / name / "library"
        shutil.copytree(library_folder, folder)
        (folder / name).write_bytes(damage((folder / name).read_bytes()))
        with pytest.raises(DataError, match="the library's"):
            read_library(folder)


def test_a_tile_has_all_its_levels(library):
    levels = sum((SIDE >> level) ** 2 for level in range(LEVELS))
    assert len(library.atlas) == len(library.aspects) * levels
    # The middle of every level is the thing itself, opaque.
    for level in range(LEVELS):
        side = SIDE >> level
        middle = library.atlas[library.offsets[0, level] + side * (side // 2) + side // 2]
        assert (int(middle) >> 24) & 255 > 250


def test_the_library_that_ships_has_both_splits():
    for split in ("train", "held-out"):
        library = read_library(bundled_library(), split=split, most_objects=8, most_backgrounds=2)
        assert len(library.rows) == 8
        assert all(row["licence"] in ("CC BY 4.0", "CC0", "CC BY 3.0", "MIT", "CC BY 2.0") for row in library.rows)


def test_a_data_set_goes_on_where_it_stopped(library, tmp_path):
    plan = EverydayPlan(split="train", seed=3, side=64, library="toy")
    first = generate_everyday(plan, library, out=tmp_path, pairs=3)
    assert (first.pairs, first.new_pairs) == (3, 3)
    whole = generate_everyday(plan, library, out=tmp_path / "again", pairs=5)
    more = generate_everyday(plan, library, out=tmp_path, pairs=5)
    assert (more.pairs, more.new_pairs) == (5, 2)
    rows = [json.loads(line) for line in (tmp_path / "train" / "metadata.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows][:3] == sorted(row["id"] for row in rows)[:3]
    assert all(len(row["captions"]) >= 5 for row in rows)
    assert all((tmp_path / "train" / row["after_file_name"]).exists() for row in rows)
    assert whole.pairs == 5
    with pytest.raises(InputError, match="other settings"):
        generate_everyday(EverydayPlan(split="train", seed=4, side=64, library="toy"), library, out=tmp_path, pairs=6)
    assert torch.get_default_dtype() == torch.float32


def test_a_data_set_lists_every_change_of_a_pair(library, tmp_path):
    plan = EverydayPlan(split="train", seed=3, side=64, library="toy", changes=3)
    generate_everyday(plan, library, out=tmp_path, pairs=12)
    rows = list(read_rows(tmp_path, "train"))
    assert {len(row.differences) for row in rows} >= {0, 1, 2, 3}
    for row in rows:
        changes = row.facts.get("changes", [])
        assert row.change_type == ("change" if changes else row.facts["kind"])
        assert len(set(row.captions)) >= 5
        if changes:
            assert len(row.differences) == len(changes)
            kinds = [change["kind"] for change in changes]
            assert len(row.before_boxes) == len(kinds) - kinds.count("add")
            assert len(row.after_boxes) == len(kinds) - kinds.count("drop")
    one = EverydayPlan(split="train", seed=3, side=64, library="toy")
    with pytest.raises(InputError, match="other settings"):
        generate_everyday(one, library, out=tmp_path, pairs=13)
    generate_everyday(one, library, out=tmp_path / "one", pairs=2)
    assert "changes" not in json.loads((tmp_path / "one" / "train" / PLAN).read_text())
    assert all(row.differences is None for row in read_rows(tmp_path / "one", "train"))


def test_a_data_set_that_cannot_go_on_is_one_line(library, tmp_path):
    plan = EverydayPlan(split="train", seed=3, side=64, library="toy")
    generate_everyday(plan, library, out=tmp_path, pairs=1)
    folder = tmp_path / "train"
    with one_writer(folder), pytest.raises(InputError, match="is being written by"):
        generate_everyday(plan, library, out=tmp_path, pairs=2)
    for file in (next(folder.glob("images/*.png")), folder / "metadata.jsonl", folder / PLAN):
        whole = file.read_bytes()
        file.write_bytes(b"" if file.suffix == ".png" else b"[]\n" if file.suffix == ".jsonl" else b"[")
        with pytest.raises(DataError, match=re.escape(file.name)):
            generate_everyday(plan, library, out=tmp_path, pairs=2)
        file.write_bytes(whole)
    assert generate_everyday(plan, library, out=tmp_path, pairs=2).new_pairs == 1
