"""Tar shards: what goes in comes out, byte for byte; damage is named."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spotchange.answering.bulk.fingerprint import pair_fingerprint
from spotchange.cli.data import app
from spotchange.data import read_rows
from spotchange.data.check import check_dataset
from spotchange.data.shard_members import members_of, rows_of
from spotchange.data.shards import list_shards, read_shards, unpack_shards, write_shards
from spotchange.errors import DataError, ImageError


def test_shards_hold_every_pair_byte_for_byte(make_set, tmp_path: Path) -> None:
    folder = make_set(scenes=5)
    assert write_shards(folder, tmp_path / "shards", pairs_per_shard=4) == {"train": 10, "val": 10, "test": 10}
    shards = list_shards(tmp_path / "shards")
    assert [path.name for path in shards["train"]] == [f"train-00000{number}.tar" for number in range(3)]
    rows = list(read_rows(folder, "train"))
    pairs = list(read_shards(shards["train"]))
    assert [pair.row.id for pair in pairs] == [row.id for row in rows]
    for pair, row in zip(pairs, rows, strict=True):
        assert pair.before == row.before_path.read_bytes()
        assert pair.after == row.after_path.read_bytes()
        assert pair.row.captions == row.captions
        assert pair.row.facts == row.facts
    with tarfile.open(shards["train"][1]) as shard:
        assert shard.getnames()[:3] == ["00000004.before.jpg", "00000004.after.jpg", "00000004.json"]
    again = tmp_path / "again"
    write_shards(folder, again, pairs_per_shard=4)
    assert (again / "train-000002.tar").read_bytes() == shards["train"][2].read_bytes()


def test_only_images_are_packed(make_set, tmp_path: Path) -> None:
    folder = make_set(scenes=1, splits=("train",))
    secret = tmp_path / "secret.txt"
    secret.write_text("a key")
    path = folder / "train" / "metadata.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for name in (str(secret), "../../secret.txt"):
        path.write_text("".join(json.dumps(line | {"after_file_name": name}) + "\n" for line in lines))
        with pytest.raises(ImageError, match="not an image"):
            write_shards(folder, tmp_path / "shards", pairs_per_shard=4)
        assert not list((tmp_path / "shards").glob("*"))


def test_unpacking_gives_the_same_data_set(make_set, tmp_path: Path) -> None:
    folder = make_set(scenes=3)
    (folder / "train" / "mask.png").write_bytes((folder / "train" / "images" / "000000_same.jpg").read_bytes())
    path = folder / "train" / "metadata.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0] |= {"mask_file_name": "mask.png", "id": "odd/../name.v2", "camera": 3}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    runner = CliRunner()
    packed = runner.invoke(app, ["shard", str(folder), "--out", str(tmp_path / "s"), "--pairs", "5", "--json"])
    assert json.loads(packed.stdout)["counts"] == {"train": 6, "val": 6, "test": 6}
    done = runner.invoke(app, ["unshard", str(tmp_path / "s"), "--out", str(tmp_path / "out")])
    assert done.stdout == f"{tmp_path / 'out'}: test 6, train 6, val 6 pairs\n"
    assert check_dataset(tmp_path / "out").ok
    old, new = list(read_rows(folder, "train")), list(read_rows(tmp_path / "out", "train"))
    for before, after in zip(old, new, strict=True):
        assert after.before_path.read_bytes() == before.before_path.read_bytes()
        kept = {name: value for name, value in after.to_dict().items() if not name.endswith("file_name")}
        assert kept == {name: value for name, value in before.to_dict().items() if not name.endswith("file_name")}
    assert new[0].mask_path is not None
    assert new[0].mask_path.read_bytes() == (folder / "train" / "mask.png").read_bytes()


def foreign_shard(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as shard:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            shard.addfile(info, io.BytesIO(content))
    return path


def test_shards_of_others_are_read(tmp_path: Path) -> None:
    members = {"deep/x1.json": b'{"captions": ["c"]}', "deep/x1.before.png": b"1", "deep/x1.after.png": b"2"}
    path = foreign_shard(tmp_path / "val-000000.tar", members)
    (pair,) = read_shards([path])
    assert (pair.row.id, pair.row.captions, pair.before, pair.after) == ("x1", ("c",), b"1", b"2")


def test_the_same_name_in_two_folders_of_a_shard_is_two_pairs(tmp_path: Path) -> None:
    one = {".json": b'{"id": "%d", "captions": ["c"]}', ".before.png": b"1%d", ".after.png": b"2%d"}
    members = {f"{place}/x{end}": text % place for place in (1, 2) for end, text in one.items()}
    pairs = list(read_shards([foreign_shard(tmp_path / "val-000000.tar", members)]))
    assert [(pair.row.id, pair.before, pair.after) for pair in pairs] == [("1", b"11", b"21"), ("2", b"12", b"22")]


def places_of(shards: Path) -> list[tuple[str, bytes, bytes]]:
    return [(name, before.read_bytes(), after.read_bytes()) for name, before, after in members_of(shards)]


def test_members_of_shards_are_read_where_they_lie(make_set, tmp_path: Path) -> None:
    write_shards(make_set(scenes=3), tmp_path / "s", pairs_per_shard=4)
    train = sorted((tmp_path / "s").glob("train-*.tar"))
    wanted = [(pair.row.id, pair.before, pair.after) for pair in read_shards(train)]
    assert places_of(tmp_path / "s" / "train-*.tar") == wanted
    assert places_of(train[1]) == wanted[4:]
    assert [name for name, *_ in places_of(tmp_path / "s")][6:12] == [name for name, *_ in wanted]  # test, train, val
    told: list[str] = []
    (tmp_path / "s" / "train-000001.index.json").unlink()
    assert places_of(tmp_path / "s" / "train-*.tar") == wanted
    list(members_of(tmp_path / "s" / "train-*.tar", told=told.append))
    assert told == [f"{tmp_path / 's' / 'train-*.tar'}: 1 of 2 shards have no index and are read through first"]
    bare = {"x1.json": b"{}", "x1.before.png": b"1", "x1.after.png": b"2"}  # captions are not needed to be captioned
    assert places_of(foreign_shard(tmp_path / "foreign.tar", bare)) == [("x1", b"1", b"2")]


def test_rows_of_shards_know_their_images(make_set, tmp_path: Path) -> None:
    write_shards(make_set(scenes=3), tmp_path / "s", pairs_per_shard=4)
    wanted = [
        (pair.row.id, pair.row.captions, pair.before, pair.after)
        for pair in read_shards(list_shards(tmp_path / "s")["val"])
    ]
    found = [
        (row.id, row.captions, row.before_path.read_bytes(), row.after_path.read_bytes())
        for row in rows_of(tmp_path / "s", "val")
    ]
    assert found == wanted
    members = {"x1.json": b'{"captions": ["c"]}', "x1.before.png": b"1", "x1.after.png": b"2", "x1.mask.png": b"3"}
    shard = foreign_shard(tmp_path / "one.tar", members)
    (row,) = rows_of(shard)
    assert row.mask_path is not None
    assert row.mask_path.read_bytes() == b"3"
    foreign_shard(shard, members | {"x1.mask.png": b"4"})
    with pytest.raises(OSError, match="not the one that its index was made of"):
        row.mask_path.read_bytes()


def test_an_index_that_does_not_fit_gives_no_wrong_image(make_set, tmp_path: Path) -> None:
    write_shards(make_set(scenes=4), tmp_path / "s", pairs_per_shard=4)
    first, second = sorted((tmp_path / "s").glob("train-*.tar"))
    index = tmp_path / "s" / "train-000000.index.json"
    second.write_bytes(second.read_bytes().ljust(first.stat().st_size, b"\0"))  # of one length, as padding makes them
    first.write_bytes(first.read_bytes().ljust(second.stat().st_size, b"\0"))
    values = json.loads(index.read_text())
    index.write_text(json.dumps(values | {"bytes": first.stat().st_size}))
    good = places_of(first)
    first.write_bytes(second.read_bytes())
    for name, before, _ in members_of(first):
        with pytest.raises(OSError, match=f"{before}: the shard is damaged"):
            before.read_bytes()
        assert name in [each for each, *_ in good]
    assert pair_fingerprint("asked", *next(iter(members_of(first)))[1:]) is None


def test_a_shard_that_was_added_to_or_cut_does_not_fit_its_index(make_set, tmp_path: Path) -> None:
    write_shards(make_set(scenes=1, splits=("train",)), tmp_path / "s")
    shard = tmp_path / "s" / "train-000000.tar"
    whole = shard.read_bytes()
    with tarfile.open(shard, "a") as added:
        added.addfile(tarfile.TarInfo("more.json"))
    assert len(whole) == shard.stat().st_size  # in the padding
    for content in (shard.read_bytes(), whole[:-512], whole + bytes(512), whole[:100], b""):
        shard.write_bytes(content)
        with pytest.raises(DataError, match="does not fit"):
            list(members_of(shard))
    shard.unlink()
    with pytest.raises(DataError, match="cannot read"):
        list(members_of(shard))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[1]",
        lambda text: "[" * 100_000,
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: text.replace('"bytes": ', '"bytes": 1'),
        lambda text: text.replace('.jpg", ', '.jpg", -'),
        lambda text: text.replace('.jpg", ', '.jpg", 9999999'),
        lambda text: text.replace('"id": "', '"id": 3, "x": "'),
    ],
)
def test_a_damaged_index_is_one_line(make_set, tmp_path: Path, change) -> None:
    write_shards(make_set(scenes=1, splits=("train",)), tmp_path / "s")
    index = tmp_path / "s" / "train-000000.index.json"
    index.write_text(change(index.read_text()))
    with pytest.raises(DataError, match=r"train-000000\.index\.json") as caught:
        list(members_of(tmp_path / "s"))
    assert caught.value.hint is not None
    assert "delete it" in caught.value.hint


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"a.before.png": b"1", "a.json": b"{}"}, "'a' has no after"),
        ({"a.before.png": b"1", "a.after.png": b"2"}, "'a' has no json"),
        ({"a.before.png": b"1", "a.after.png": b"2", "a.json": b"["}, "'a.json' is no row"),
        ({"a.before.png": b"1", "a.after.png": b"2", "a.json": b"{}"}, "'captions' is missing"),
    ],
)
def test_incomplete_pairs_are_named(members: dict[str, bytes], reason: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=reason):
        list(read_shards([foreign_shard(tmp_path / "val-000000.tar", members)]))
    with pytest.raises(DataError, match=reason):
        unpack_shards(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_damaged_tar_files_are_named(make_set, tmp_path: Path) -> None:
    write_shards(make_set(scenes=2), tmp_path / "s")
    path = tmp_path / "s" / "train-000000.tar"
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(DataError, match=r"train-000000\.tar"):
        list(read_shards([path]))
    path.write_bytes(b"no tar")
    with pytest.raises(DataError, match="not a sound tar file"):
        list(read_shards([path]))


def test_places_that_cannot_be_used(make_set, tmp_path: Path) -> None:
    folder = make_set(scenes=1)
    write_shards(folder, tmp_path / "s")
    with pytest.raises(DataError, match="holds shards already"):
        write_shards(folder, tmp_path / "s")
    with pytest.raises(DataError, match="not empty"):
        unpack_shards(tmp_path / "s", folder)
    with pytest.raises(DataError, match="no shards"):
        list_shards(tmp_path)
