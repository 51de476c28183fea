"""What the writer says is true, clear, different each time, and the same on every run and in every batch."""

from __future__ import annotations

import numpy as np
import pytest

from spotchange.errors import InputError
from spotchange.language.checker import check
from spotchange.language.phrases import MAX_WORDS
from spotchange.language.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIAL_TOKENS,
    TOKENS,
    UNK_ID,
    WORDS,
    build_tokenizer,
    decode,
    encode,
)
from spotchange.language.writer import captions_text, describable, write_captions
from spotchange.pairs import ADD
from spotchange.scene import ATTRIBUTE_VALUES, COLOR, MATERIAL, SHAPE, SceneBatch
from spotchange.scenes.changes import scene_json

PER_PAIR = 8


@pytest.fixture(scope="module")
def batch(make_scenes) -> SceneBatch:
    return make_scenes(1500, seed=7)


@pytest.fixture(scope="module")
def ids(batch: SceneBatch) -> np.ndarray:
    return write_captions(batch, seed=11, per_pair=PER_PAIR)


@pytest.mark.parametrize("crowded", [False, True])
def test_captions_are_true_and_clear(crowded: bool, make_scenes) -> None:
    batch = make_scenes(800, seed=3, crowded=crowded)
    batch = batch[describable(batch)]
    ids = write_captions(batch, seed=5, per_pair=6)
    for s in range(len(batch)):
        scene = scene_json(batch, s, str(s))
        for pair in (0, 1):
            for caption in captions_text(ids[s, pair]):
                verdict = check(caption, scene, distractor=pair == 1)
                assert verdict.correct, (caption, verdict, scene)


def test_most_scenes_can_be_described_and_the_others_are_flagged(make_scenes) -> None:
    batch = make_scenes(1000, seed=2, crowded=True)
    flags = describable(batch)
    assert 0.9 < flags.mean() < 1
    ids = write_captions(batch, seed=0, per_pair=3)
    for s in np.flatnonzero(~flags):
        scene = scene_json(batch, s, str(s))
        for caption in captions_text(ids[s, 0]):
            verdict = check(caption, scene)
            assert verdict.true  # still true of the changed object, only not of it alone
            assert not verdict.correct


def test_two_twins_side_by_side_cannot_be_told_apart(make_scenes) -> None:
    batch = make_scenes(1, seed=1)
    batch.attributes[:] = -1
    batch.attributes[0, :, :2] = 0
    batch.target[0] = 0
    batch.change[0] = 5
    assert not describable(batch)[0]


def test_a_scene_without_its_target_gets_empty_sentences(make_scenes) -> None:
    batch = make_scenes(2, seed=1)
    batch.attributes[:] = -1
    assert not describable(batch).any()
    assert captions_text(write_captions(batch, seed=1, per_pair=2)[:, 0]) == [""] * 4


def test_references_of_a_pair_differ(batch: SceneBatch, ids: np.ndarray) -> None:
    clear = np.flatnonzero(describable(batch))
    for s in clear:
        for pair in (0, 1):
            assert len(set(captions_text(ids[s, pair]))) == PER_PAIR


def test_nine_ways_to_say_nothing_changed(batch: SceneBatch) -> None:
    sentences = [captions_text(rows) for rows in write_captions(batch[:300], seed=1, per_pair=11)[:, 1]]
    assert all(len(set(said[:9])) == 9 for said in sentences)
    assert all(said[9:] == said[:2] for said in sentences)
    assert len({said[0] for said in sentences}) == 9


def test_ids_are_framed_and_padded(ids: np.ndarray) -> None:
    assert ids.shape[-1] == MAX_WORDS
    assert ids.dtype == np.int16
    assert (ids[..., 0] == BOS_ID).all()
    assert ((ids == EOS_ID).sum(-1) == 1).all()
    after_end = np.cumsum(ids == EOS_ID, axis=-1) - (ids == EOS_ID) > 0
    assert (ids[after_end] == PAD_ID).all()
    assert (ids[~after_end & (ids != EOS_ID)][1:] != PAD_ID).all()


def test_all_72_words_and_no_others_are_used(ids: np.ndarray) -> None:
    used = {TOKENS[token] for token in np.unique(ids)} - set(SPECIAL_TOKENS)
    assert len(WORDS) == 72
    assert used == set(WORDS)


def test_captions_depend_on_seed_and_scene_only(batch: SceneBatch, ids: np.ndarray) -> None:
    order = np.random.default_rng(0).permutation(len(batch))[:200]
    np.testing.assert_array_equal(write_captions(batch[order], seed=11, per_pair=PER_PAIR), ids[order])
    np.testing.assert_array_equal(write_captions(batch[:200], seed=11, per_pair=3), ids[:200, :, :3])
    other = write_captions(batch[:200], seed=12, per_pair=PER_PAIR)
    assert (other != ids[:200]).any(axis=(1, 2, 3)).mean() > 0.99


def test_short_and_long_phrases_with_and_without_relations(ids: np.ndarray) -> None:
    texts = captions_text(ids[:, 0])
    related = [any(word in text.split() for word in ("left", "right", "behind", "front")) for text in texts]
    assert 0.3 < np.mean(related) < 0.7
    lengths = [len(text.split()) for text in texts]
    assert min(lengths) <= 4
    assert max(lengths) >= 20


def test_the_new_value_is_the_true_one(batch: SceneBatch, ids: np.ndarray) -> None:
    materials = {"matte": "rubber", "metallic": "metal", "shiny": "metal"}
    for change, attribute in ((1, COLOR), (2, MATERIAL)):
        for s in np.flatnonzero(batch.change == change)[:100]:
            truth = ATTRIBUTE_VALUES[attribute][batch.attributes[s, 1, batch.target[s, 1], attribute]]
            last = [text.split()[-1] for text in captions_text(ids[s, 0])]
            assert {materials.get(word, word) for word in last} == {truth}


def test_added_objects_are_told_from_the_second_camera(make_scenes) -> None:
    """Two look-alikes change sides between the cameras, so a sentence can be true from one of them only."""
    batch = make_scenes(1, seed=1)
    batch.attributes[:] = -1
    batch.attributes[0, :, 0] = 0, 0, 0, 0
    batch.attributes[0, 1, 1] = 1, 1, 0, 0
    batch.placement[0, :, 0, :2] = 0, 0
    batch.placement[0, 1, 1, :2] = 1, 0
    batch.change[0], batch.target[0] = ADD, (-1, 1)
    batch.camera[0, 0] = 0, -8, 5  # looks along +y: the new object stands to the right
    batch.camera[0, 1] = 0, 8, 5  # looks along -y: to the left
    assert (batch.attributes[0, 1, :2, SHAPE] >= 0).all()
    sides = " ".join(captions_text(write_captions(batch, seed=1, per_pair=60)[0, 0])).split()
    assert "left" in sides
    assert "right" not in sides


@pytest.mark.parametrize("per_pair", [0, -1])
def test_no_captions_are_refused(per_pair: int, make_scenes) -> None:
    with pytest.raises(InputError, match="at least 1"):
        write_captions(make_scenes(1, seed=1), seed=1, per_pair=per_pair)


def test_an_empty_batch_gives_no_captions(make_scenes) -> None:
    assert write_captions(make_scenes(1, seed=1)[:0], seed=1, per_pair=2).shape == (0, 2, 2, MAX_WORDS)


def test_tokenizer_has_the_same_ids(ids: np.ndarray, tmp_path) -> None:
    from tokenizers import Tokenizer

    build_tokenizer().save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert tokenizer.get_vocab() == {token: index for index, token in enumerate(TOKENS)}
    for row in ids[:100].reshape(-1, MAX_WORDS):
        text = decode(row)
        assert tokenizer.encode(text).ids == row[row != PAD_ID].tolist()
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_tokenizer_forgives_case_and_punctuation_but_not_foreign_words() -> None:
    tokenizer = build_tokenizer()
    assert tokenizer.encode("The big BLOCK, moved.", add_special_tokens=False).ids == encode("the big block moved")
    assert tokenizer.encode("the zebra", add_special_tokens=False).ids[-1] == UNK_ID == encode("zebra")[0]


def test_decode_stops_at_the_end() -> None:
    assert decode([BOS_ID, *encode("nothing has changed"), EOS_ID, *encode("the the")]) == "nothing has changed"


@pytest.mark.gpu
def test_cuda_writes_the_same_captions(batch: SceneBatch, ids: np.ndarray) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    there = SceneBatch(**{name: torch.as_tensor(value).cuda() for name, value in vars(batch).items()})
    np.testing.assert_array_equal(write_captions(there, seed=11, per_pair=PER_PAIR).cpu().numpy(), ids)
    np.testing.assert_array_equal(describable(there).cpu().numpy(), describable(batch))
