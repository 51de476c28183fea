"""The training stream: its shapes, its truth, and that it stands at a scene number and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from spotchange.config.scenes import LookRandomness, SceneSettings, scene_preset
from spotchange.errors import ConfigError
from spotchange.language.vocabulary import BOS_ID, EOS_ID, PAD_ID, decode, encode
from spotchange.pairs import ADD, CHANGE_TYPES, DROP, RECOLOR, RETEXTURE, PairBatch
from spotchange.scenes.stream import RELATION_IDS, SceneStream, plainest, world_seed

PLAIN = SceneSettings()


def stream(settings: SceneSettings = PLAIN, **changes: Any) -> SceneStream:
    values: dict[str, Any] = {"device": "cpu", "seed": 7, "scenes_per_batch": 5, "width": 48, "height": 48}
    return SceneStream(settings, **(values | {"grid": (3, 3), "scenes_per_chunk": 10} | changes))


@pytest.fixture(scope="module")
def batch() -> PairBatch:
    return next(stream(scenes_per_batch=20, scenes_per_chunk=20))


def tensors(batch: PairBatch) -> dict[str, torch.Tensor]:
    """All that a stream fills: everything but the place of a caption in a set on disk."""
    return {name: value for name, value in vars(batch).items() if name != "caption_place"}


def rows_equal(left: PairBatch, right: PairBatch) -> bool:
    return all(torch.equal(value, getattr(right, name)) for name, value in tensors(left).items())


def test_a_batch_has_the_shapes_training_reads(batch: PairBatch) -> None:
    rows, words = batch.caption_ids.shape
    assert rows == 40
    shapes = {name: (tuple(value.shape), value.dtype) for name, value in tensors(batch).items()}
    assert shapes == {
        "before": ((40, 3, 48, 48), torch.uint8),
        "after": ((40, 3, 48, 48), torch.uint8),
        "caption_ids": ((40, words), torch.int64),
        "caption_mask": ((40, words), torch.bool),
        "change_type": ((40,), torch.int64),
        "scene_id": ((40,), torch.int64),
        "patch_attributes": ((40, 2, 9, 4), torch.int8),
        "change_mask": ((40, 2, 9), torch.bool),
        "answer": ((40, 6), torch.int64),
    }


def test_change_and_distractor_of_a_scene_stand_together(batch: PairBatch) -> None:
    change, distractor = slice(0, None, 2), slice(1, None, 2)
    assert torch.equal(batch.scene_id[change], batch.scene_id[distractor])
    assert batch.scene_id[change].tolist() == list(range(20))
    assert torch.equal(batch.before[change], batch.before[distractor])
    assert (batch.change_type[distractor] == 0).all()
    assert torch.bincount(batch.change_type[change], minlength=6).tolist() == [0, 4, 4, 4, 4, 4]
    assert not batch.change_mask[distractor].any()
    assert (batch.answer[distractor] == -1).all()
    # All cameras differ, so no two images of a scene may be the same.
    assert (batch.before != batch.after).flatten(1).float().mean(1).min() > 0.2


def test_captions_say_what_the_row_holds(batch: PairBatch) -> None:
    nothing = {"no", "nothing", "identical", "same"}
    for row, ids in enumerate(batch.caption_ids.tolist()):
        length = int(batch.caption_mask[row].sum())
        assert ids[0] == BOS_ID
        assert ids[length - 1] == EOS_ID
        words = set(decode(ids).split())
        is_change = batch.change_type[row] > 0
        assert bool(words & nothing) != is_change or "longer" in words, words
        if batch.change_type[row] == ADD:
            assert words & {"appeared", "added", "placed"}


def test_truth_of_a_change_is_where_its_object_is(batch: PairBatch) -> None:
    for row in range(0, 40, 2):
        kind = int(batch.change_type[row])
        before, after = batch.change_mask[row].any(1).tolist()
        assert (before, after) == (kind != ADD, kind != DROP), CHANGE_TYPES[kind]
        answer = batch.answer[row]
        assert (answer[:4] >= 0).all()
        assert (answer[4] >= 0) == (kind == RECOLOR)
        assert (answer[5] >= 0) == (kind == RETEXTURE)
        if kind == RECOLOR:
            assert answer[4] != answer[0]
        if kind == RETEXTURE:
            assert answer[5] == 1 - answer[2]


def test_batch_size_and_chunk_do_not_change_the_pairs(batch: PairBatch) -> None:
    small = stream(scenes_per_batch=2, scenes_per_chunk=4)
    for first in range(0, 12, 4):
        part = next(small)
        for name, value in tensors(part).items():
            assert torch.equal(value, getattr(batch, name)[first : first + 4]), name


def test_ranks_share_the_scenes_out() -> None:
    taken = [next(stream(rank=rank, world_size=3, scenes_per_batch=2)).scene_id[::2].tolist() for rank in range(3)]
    assert taken == [[0, 3], [1, 4], [2, 5]]


def test_resume_goes_on_exactly() -> None:
    first = stream(scenes_per_batch=2)
    next(first)
    state = first.state_dict()
    expected = next(first)
    second = stream(scenes_per_batch=2)
    second.load_state_dict(state)
    assert rows_equal(next(second), expected)
    first.load_state_dict(state)
    assert rows_equal(next(first), expected), "going back within one stream"
    with pytest.raises(ConfigError, match="seed"):
        stream(seed=8).load_state_dict(state)


def test_a_state_fits_every_rank() -> None:
    first = stream(rank=0, world_size=2, scenes_per_batch=2)
    next(first)
    second = stream(rank=1, world_size=2, scenes_per_batch=2)
    second.load_state_dict(first.state_dict())
    assert next(second).scene_id[::2].tolist() == [5, 7]


def test_training_never_meets_a_split_of_its_seed() -> None:
    seeds = {world_seed(3, split) for split in (None, "train", "val", "test")}
    assert len(seeds | {world_seed(4, split) for split in (None, "train", "val", "test")}) == 8


def test_domain_randomisation_changes_pixels_and_nothing_else() -> None:
    plain = next(stream(scenes_per_batch=2, scenes_per_chunk=2))
    varied = scene_preset("clevr-change", look=dict.fromkeys(LookRandomness.model_fields, 1))
    changed = next(stream(varied, scenes_per_batch=2, scenes_per_chunk=2))
    assert (changed.before.int() - plain.before.int()).abs().float().mean() > 4
    for name in set(tensors(plain)) - {"before", "after"}:
        assert torch.equal(getattr(plain, name), getattr(changed, name)), name


@pytest.mark.parametrize("values", [{"scenes_per_batch": 0}, {"rank": 2, "world_size": 2}, {"quality": "best"}])
def test_impossible_streams_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        stream(**values)


def test_the_plainest_sentence_is_the_longest_without_a_relation() -> None:
    sentences = [
        "the cube moved",
        "the small red metal cube moved",
        "the small red metal cube left of the big ball moved",
        "the object moved",
    ]
    rows = torch.tensor([(encode(text) + [PAD_ID] * 24)[:24] for text in sentences])
    pairs = torch.stack([rows, rows.flip(0)])[None]  # (1, 2, 4, 24)
    chosen = plainest(pairs)
    assert decode(chosen[0, 0].tolist()) == "the small red metal cube moved"
    assert decode(chosen[0, 1].tolist()) == "the object moved"  # a distractor keeps its first
    only_relations = pairs[:, :, 2:3]
    plain = "the small red metal cube left of the large sphere moved"  # one word for each meaning
    assert decode(plainest(only_relations)[0, 0].tolist()) == plain


def test_plain_sentences_relate_only_where_they_must(batch: PairBatch) -> None:
    plain = next(stream(scenes_per_batch=20, scenes_per_chunk=20, plain_sentences=True))
    relations = torch.tensor(RELATION_IDS)
    related = torch.isin(plain.caption_ids, relations).any(1)
    assert related.float().mean() < 0.1 < torch.isin(batch.caption_ids, relations).any(1).float().mean()
    assert torch.equal(plain.caption_ids[1::2], batch.caption_ids[1::2])
    assert torch.equal(plain.before, batch.before)
