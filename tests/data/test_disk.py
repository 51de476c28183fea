"""The disk source gives every pair once an epoch, the same to everyone, and goes on exactly after a stop."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from spotchange.data import Row, read_rows, write_rows
from spotchange.data.caches.images import open_cache
from spotchange.data.caches.index import CELLS, RowIndex, change_cells
from spotchange.errors import ConfigError, DataError
from spotchange.images import read_image, squash
from spotchange.language.vocabulary import build_tokenizer
from spotchange.pairs import PairBatch
from spotchange.training.sources.folder import FolderBatches


def open_source(folder: Path, **options) -> FolderBatches:
    defaults = {"tokenizer": build_tokenizer(), "image_size": 16, "batch": 4, "workers": 0}
    return FolderBatches(folder, "train", **(defaults | options))


def same(left: PairBatch, right: PairBatch) -> bool:
    return all(
        torch.equal(getattr(left, name), getattr(right, name))
        for name in ("before", "after", "caption_ids", "caption_mask", "change_type", "scene_id")
    )


def test_batch_holds_the_images_and_captions_of_the_rows(make_set) -> None:
    folder = make_set(scenes=3)
    rows = list(read_rows(folder, "train"))
    source = open_source(folder, shuffle=False, batch=6, image_size=(12, 20), max_words=9)
    batch = source.next_batch()
    assert source.paired
    assert len(source) == 6
    assert batch.before.shape == (6, 3, 12, 20)
    assert batch.before.dtype == torch.uint8
    for place, row in enumerate(rows):
        np.testing.assert_array_equal(batch.before[place], squash(read_image(row.before_path), 20, 12))
        np.testing.assert_array_equal(batch.after[place], squash(read_image(row.after_path), 20, 12))
    assert batch.change_type.tolist() == [1, 0] * 3
    assert batch.scene_id.tolist() == [0, 0, 1, 1, 2, 2]
    tokenizer = build_tokenizer()
    assert batch.caption_ids[0, :9].tolist() == tokenizer.encode(rows[0].captions[0]).ids
    assert batch.caption_ids[1].tolist() == [*tokenizer.encode("there is no change").ids, 0, 0, 0]
    assert batch.caption_mask[1].tolist() == [True] * 6 + [False] * 3
    assert batch.patch_attributes is None


def test_long_captions_are_cut_before_the_end_token(make_set) -> None:
    source = open_source(make_set(scenes=1), shuffle=False, batch=2, max_words=5)
    ids = source.next_batch().caption_ids[0].tolist()
    full = build_tokenizer().encode("the small red metal cube turned blue").ids
    assert ids == [*full[:4], full[-1]]
    with pytest.raises(ConfigError, match="max_words"):
        open_source(make_set(scenes=1), batch=2, max_words=2)


def test_every_epoch_gives_every_pair_once_with_rows_of_a_scene_adjacent(make_set) -> None:
    source = open_source(make_set(scenes=5), batch=4)  # five scenes, two a batch: batches cross the epochs' border
    orders = []
    seen: list[int] = []
    for _ in range(5):
        batch = source.next_batch()
        assert torch.equal(batch.scene_id[0::2], batch.scene_id[1::2])
        assert (batch.change_type[0::2] == 1).all()
        assert (batch.change_type[1::2] == 0).all()
        seen += batch.scene_id[0::2].tolist()
    orders = [seen[:5], seen[5:]]
    assert [sorted(order) for order in orders] == [[0, 1, 2, 3, 4]] * 2
    assert orders[0] != orders[1]
    assert source.epoch == 2.0


def test_captions_are_drawn_anew_each_epoch(make_set) -> None:
    source = open_source(make_set(scenes=1), batch=2)
    texts = Counter(tuple(source.next_batch().caption_ids[0].tolist()) for _ in range(40))
    assert len(texts) == 2
    assert min(texts.values()) >= 5


def test_an_epoch_may_run_over_sentences(make_set) -> None:
    """Three scenes, each with two sentences about its change and one about its distractor."""
    folder = make_set(scenes=3)
    source = open_source(folder, batch=3, unit="sentences")
    assert not source.paired
    rows = [source.next_batch() for _ in range(3)]
    sentences = Counter(
        (scene, kind, tuple(ids))
        for batch in rows
        for scene, kind, ids in zip(
            batch.scene_id.tolist(), batch.change_type.tolist(), batch.caption_ids.tolist(), strict=True
        )
    )
    assert len(sentences) == 9
    assert set(sentences.values()) == {1}
    assert source.epoch == 1.0
    assert len(source) == 6  # pairs, however often an epoch visits them


def test_an_epoch_may_run_over_sentences_of_changes_with_distractors_beside_them(make_set) -> None:
    source = open_source(make_set(scenes=3), batch=4, unit="change-sentences")
    assert source.paired
    batches = [source.next_batch() for _ in range(3)]
    assert all(batch.change_type.tolist() == [1, 0, 1, 0] for batch in batches)
    told = []
    for batch in batches:
        told += list(zip(batch.scene_id[::2].tolist(), map(tuple, batch.caption_ids[::2].tolist()), strict=True))
    assert len(set(told)) == len(told) == 6
    assert source.epoch == 1.0
    resumed = open_source(make_set(scenes=3), batch=4, unit="change-sentences")
    resumed.load_state_dict(source.state_dict())
    assert same(resumed.next_batch(), source.next_batch())


@pytest.mark.parametrize("workers", [0, 2])
def test_resume_is_exact(make_set, workers: int) -> None:
    folder = make_set(scenes=7)
    straight = open_source(folder, workers=workers, seed=3)
    batches = [straight.next_batch() for _ in range(9)]
    first = open_source(folder, workers=workers, seed=3)
    for _ in range(4):
        first.next_batch()
    state = json.loads(json.dumps(first.state_dict()))
    resumed = open_source(folder, workers=workers, seed=3)
    resumed.next_batch()  # whatever it did before must not matter
    resumed.load_state_dict(state)
    assert all(same(resumed.next_batch(), batch) for batch in batches[4:])
    assert not same(open_source(folder, seed=4).next_batch(), batches[0])
    for source in (straight, first, resumed):
        source.close()


def test_threads_end_with_the_source(make_set) -> None:
    before = threading.active_count()
    source = open_source(make_set(scenes=4), workers=2)
    source.next_batch()
    source.close()
    assert threading.active_count() == before


def test_resume_refuses_other_data(make_set) -> None:
    state = open_source(make_set("a", scenes=2)).state_dict()
    with pytest.raises(DataError, match="units 2, now it has 3"):
        open_source(make_set("b", scenes=3)).load_state_dict(state)
    with pytest.raises(DataError, match="seed"):
        open_source(make_set("a", scenes=2), seed=9).load_state_dict(state)


def test_processes_share_the_pairs(make_set) -> None:
    folder = make_set(scenes=8)
    whole = open_source(folder, batch=8)
    ranks = [open_source(folder, batch=4, rank=rank, world_size=2) for rank in range(2)]
    for _ in range(5):
        expected = whole.next_batch().scene_id.tolist()
        assert expected == [scene for rank in ranks for scene in rank.next_batch().scene_id.tolist()]
    assert ranks[0].state_dict() == ranks[1].state_dict() == whole.state_dict()
    with pytest.raises(ConfigError, match="rank"):
        open_source(folder, rank=2, world_size=2)
    with pytest.raises(ConfigError, match="equal number"):
        open_source(folder, batch=3)


def test_rows_apart_in_the_file_still_meet(make_set, tmp_path: Path) -> None:
    folder = make_set(scenes=4)
    rows = list(read_rows(folder, "train"))
    write_rows(folder / "train" / "metadata.jsonl", [*rows[1::2], *rows[0::2]])
    batch = open_source(folder, shuffle=False, batch=8).next_batch()
    assert batch.scene_id.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert batch.change_type.tolist() == [1, 0] * 4


def test_sets_without_distractors_are_single_rows(make_set) -> None:
    folder = make_set(scenes=3)
    rows = [row for row in read_rows(folder, "train") if row.change_type != "none"]
    write_rows(folder / "train" / "metadata.jsonl", rows)
    source = open_source(folder, batch=3)
    assert not source.paired
    assert sorted(source.next_batch().scene_id.tolist()) == [0, 1, 2]


def test_other_change_types_are_numbered_alike_in_all_splits(make_set) -> None:
    folder = make_set(scenes=2)
    for split, words in (("train", ["zebra", None]), ("val", ["apple", "zebra"])):
        rows = [row for row in read_rows(folder, split) if row.change_type != "none"]
        values = [row.to_dict() | {"change_type": word} for row, word in zip(rows, words, strict=True)]
        text = "".join(json.dumps(value) + "\n" for value in values)
        (folder / split / "metadata.jsonl").write_text(text)
    train = open_source(folder, batch=2, shuffle=False)
    assert train.change_types == ("none", "color", "texture", "add", "drop", "move", "apple", "zebra")
    assert train.next_batch().change_type.tolist() == [7, -1]


def test_one_pass_sees_everything_once(make_set) -> None:
    source = open_source(make_set(scenes=5), batch=4)
    source.next_batch()
    numbers, sizes = [], []
    for rows, batch in source.one_pass():
        numbers += rows.tolist()
        sizes.append(len(batch))
    assert numbers == list(range(10))
    assert sizes == [4, 4, 2]
    assert source.references(0) == ["the small red metal cube turned blue", "the cube became blue 0"]
    assert sum(len(batch) for _, batch in source.one_pass(pairs=6)) == 6


def test_protocol_decides_what_a_caption_is(make_set) -> None:
    source = open_source(make_set(scenes=1), batch=2, shuffle=False, protocol="spot-the-diff-multi")
    assert source.references(0) == ["the small red metal cube turned blue . the cube became blue 0"]


def test_boxes_become_a_mask_of_patches(make_set) -> None:
    source = open_source(make_set(scenes=1), batch=2, shuffle=False, grid=(4, 4))
    mask = source.next_batch().change_mask
    assert mask is not None
    assert mask.shape == (2, 2, 16)
    # Box 6, 4, 12, 8 in an image of 48 x 32: the first two columns and rows of 12 x 8 patches.
    expected = torch.zeros(4, 4, dtype=torch.bool)
    expected[:2, :2] = True
    assert torch.equal(mask[0, 0].view(4, 4), expected)
    assert torch.equal(mask[0, 1].view(4, 4), expected)
    assert not mask[1].any()


def test_mask_files_become_a_mask_of_patches(make_set) -> None:
    folder = make_set(scenes=2)
    rows = [row for row in read_rows(folder, "train") if row.change_type != "none"]
    for place, row in enumerate(rows):
        mask = Image.new("L", (30, 30))
        mask.paste(1, (29 * place, 0, 29 * place + 1, 1))  # one pixel, of value 1, must not get lost
        mask.save(row.folder / f"mask{place}.png")
    lines = [row.to_dict() | {"mask_file_name": f"mask{place}.png"} for place, row in enumerate(rows)]
    (folder / "train" / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    mask = open_source(folder, batch=2, shuffle=False, grid=(3, 5)).next_batch().change_mask
    assert mask is not None
    assert mask.shape == (2, 2, 15)
    assert [torch.nonzero(each).flatten().tolist() for each in mask.flatten(0, 1)] == [[0], [0], [4], [4]]


def test_change_without_a_known_place_gives_no_mask(make_set, tmp_path: Path) -> None:
    row = Row(id="a", before_file_name="b", after_file_name="c", captions=("d",), change_type="color")
    assert change_cells(row) is None
    still = Row(id="a", before_file_name="b", after_file_name="c", captions=("d",), change_type="none")
    cells = change_cells(still)
    assert cells is not None
    assert cells.shape == (2, CELLS, CELLS)
    folder = make_set(scenes=2)
    rows = list(read_rows(folder, "train"))
    lines = [row.to_dict() for row in rows]
    for name in ("before_boxes", "after_boxes"):
        del lines[2][name]
    (folder / "train" / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert open_source(folder, batch=2, grid=(4, 4)).next_batch().change_mask is None


def test_cache_is_built_once_and_anew_when_an_image_changes(make_set) -> None:
    folder = make_set(scenes=2)
    first = open_cache(folder, "train", height=8, width=8)
    stamp = (first / "pictures.bin").stat().st_mtime_ns
    assert open_cache(folder, "train", height=8, width=8) == first
    assert (first / "pictures.bin").stat().st_mtime_ns == stamp
    assert (first / "pictures.bin").stat().st_size == 6 * 3 * 8 * 8  # before is shared by both pairs of a scene
    assert open_cache(folder, "train", height=8, width=16) != first
    Image.new("RGB", (48, 32), "red").save(folder / "train" / "images" / "000000_before.jpg")
    assert open_cache(folder, "train", height=8, width=8) != first


def test_a_broken_build_goes_on_where_it_stopped(make_set, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_set(scenes=4)
    opened: list[str] = []

    def stop_after_five(path, **options):
        opened.append(Path(path).name)
        if len(opened) == 6:
            raise KeyboardInterrupt
        return read_image(path, **options)

    monkeypatch.setattr("spotchange.data.caches.images.read_image", stop_after_five)
    with pytest.raises(KeyboardInterrupt):
        open_cache(folder, "train", height=8, width=8, workers=1)
    assert [path.suffix for path in (folder / ".spotchange").iterdir() if path.is_dir()] == [".building"]
    done = opened[:5]
    del opened[:]
    counts = []
    monkeypatch.setattr(
        "spotchange.data.caches.images.read_image",
        lambda path, **o: opened.append(Path(path).name) or read_image(path, **o),
    )
    cache = open_cache(folder, "train", height=8, width=8, workers=1, advance=lambda *numbers: counts.append(numbers))
    assert len(opened) == 12 - 5
    assert not set(opened) & set(done)
    assert counts[-1] == (12, 12)
    assert cache.name.startswith("train-8x8-")
    source = open_source(folder, image_size=8, shuffle=False, batch=8)
    row = next(iter(read_rows(folder, "train")))
    expected = squash(read_image(row.before_path, smallest_side=16), 8)
    np.testing.assert_array_equal(source.next_batch().before[0], expected)


def test_unreadable_images_are_named_or_skipped(make_set) -> None:
    folder = make_set(scenes=3)
    bad = folder / "train" / "images" / "000001_same.jpg"
    bad.write_bytes(bad.read_bytes()[:100])
    with pytest.raises(DataError, match=r"1 images cannot be read: .*000001_same.jpg is damaged"):
        open_source(folder)
    source = open_source(folder, skip_bad=True, batch=4, shuffle=False)
    assert source.paired  # the whole scene goes, so that pairs stay pairs
    assert source.next_batch().scene_id.tolist() == [0, 0, 2, 2]
    assert len(RowIndex(open_cache(folder, "train", height=16, width=16, skip_bad=True)).usable) == 5


def test_cache_folder_can_be_chosen_and_falls_back(make_set, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_set(scenes=1)
    chosen = open_cache(folder, "train", height=8, width=8, cache_dir=tmp_path / "elsewhere")
    assert chosen.parent == tmp_path / "elsewhere"
    (folder / ".spotchange").write_text("a file where the cache folder would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    fallback = open_cache(folder, "train", height=8, width=8)
    assert (tmp_path / "home" / "spotchange") in fallback.parents


def test_too_little_room_is_said_before_anything_is_written(make_set, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(DataError, match="GB are free"):
        open_cache(make_set(scenes=1), "train", height=8, width=8)


def test_images_kept_on_the_device_are_read_once(make_set, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_set(scenes=5)
    from_disk = open_source(folder, seed=3)
    expected = [from_disk.next_batch() for _ in range(4)]
    monkeypatch.setattr("spotchange.training.sources.folder.fits_on", lambda device, size: True)
    monkeypatch.setattr("spotchange.data.caches.reader._IMAGES_AT_ONCE", 4)
    kept = open_source(folder, seed=3, workers=2)
    (images,) = folder.rglob("pictures.bin")
    images.write_bytes(bytes(images.stat().st_size))
    assert all(same(kept.next_batch(), batch) for batch in expected)
    kept.close()
