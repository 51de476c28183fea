"""Negatives of generated scenes in ids: six different ones a pair, of the three kinds, and never true."""

from __future__ import annotations

import pytest
import torch

from spotchange.config.scenes import scene_preset
from spotchange.data.negatives.scenes import SceneNegatives
from spotchange.errors import DataError
from spotchange.language.checker import check
from spotchange.language.grammar import read_claim, says_no_change
from spotchange.language.vocabulary import PAD_ID, decode, encode
from spotchange.language.writer import write_captions
from spotchange.pairs import PairBatch
from spotchange.scenes.changes import answers, as_tensors, scene_json
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import PLAIN_CHOICES, plainest

SCENES = 200


@pytest.fixture(scope="module")
def drawn():
    world = World(scene_preset("clevr-change"), seed=11, device="cpu")
    return world.scenes(torch.arange(SCENES).numpy())


def captions_of(drawn, *, plain: bool) -> torch.Tensor:
    """(2 pairs a scene, words), a sentence each."""
    ids = torch.as_tensor(write_captions(drawn, seed=11, per_pair=PLAIN_CHOICES if plain else 1))
    return (plainest(ids) if plain else ids[:, :, 0]).flatten(0, 1).long()


def batch_of(drawn, captions: torch.Tensor) -> PairBatch:
    scenes = as_tensors(drawn)
    nothing = torch.zeros_like(scenes.change).long()
    told = answers(scenes)
    return PairBatch(
        before=torch.empty(len(captions), 0),
        after=torch.empty(len(captions), 0),
        caption_ids=captions,
        caption_mask=captions != PAD_ID,
        change_type=torch.stack([scenes.change.long(), nothing], 1).flatten(),
        scene_id=torch.arange(len(captions)) // 2,
        answer=torch.stack([told, torch.full_like(told, -1)], 1).flatten(0, 1),
    )


@pytest.mark.parametrize("plain", [False, True])
def test_six_different_false_sentences_for_each_pair(drawn, plain: bool) -> None:
    captions = captions_of(drawn, plain=plain)
    torch.manual_seed(1)
    ids, mask = SceneNegatives(captions, counts=(2, 2, 2))(batch_of(drawn, captions))
    assert ids.shape == (2 * SCENES, 6, captions.shape[1])
    assert torch.equal(mask, ids != PAD_ID)
    words = set(captions.unique().tolist())
    assert set(ids.unique().tolist()) <= words  # a word that no true sentence has would give a negative away
    for row, sentences in enumerate(ids.tolist()):
        truth = scene_json(drawn, row // 2, "")
        texts = [decode(sentence) for sentence in sentences]
        assert len(set(texts)) == 6
        for text in texts:
            verdict = check(text, truth, distractor=row % 2 == 1)
            assert verdict.parsed, text
            assert not verdict.true, (decode(captions[row].tolist()), text)


def negatives_of(caption: str, change: int, answer: list[int], counts: tuple[int, int, int], drawn) -> set[str]:
    table = captions_of(drawn, plain=False)
    ids = torch.full((2, table.shape[1]), PAD_ID)
    words = [1, *encode(caption), 2]
    ids[:, : len(words)] = torch.tensor(words)
    batch = batch_of(drawn[:1], ids)
    batch = PairBatch(**vars(batch) | {"change_type": torch.tensor([change] * 2), "answer": torch.tensor([answer] * 2)})
    made, _ = SceneNegatives(table, counts=counts)(batch)
    return {decode(row) for row in made[0].tolist()}


RED_CUBE = [1, 0, 1, 0]  # colour, shape, material, size


def test_confused_sentences(drawn) -> None:
    """Objects exchanged and old and new exchanged, where both can be; the opposite event."""
    turned = "the red cube that is left of the blue ball turned green"
    made = negatives_of(turned, 1, [*RED_CUBE, 3, -1], (0, 0, 2), drawn)
    assert made == {
        "the blue ball that is left of the red cube turned green",
        "the green cube that is left of the blue ball turned red",
    }
    gone = negatives_of("the red cube has disappeared", 4, [*RED_CUBE, -1, -1], (0, 0, 1), drawn)
    assert gone == {"the red cube has appeared"}


def test_objects_that_may_be_one_are_not_exchanged(drawn) -> None:
    """The anchor fits the changed object too: exchanged, the sentence might be true."""
    moved = "the red cube that is left of the cube moved"
    made = negatives_of(moved, 5, [*RED_CUBE, -1, -1], (0, 0, 3), drawn)
    assert "the cube that is left of the red cube moved" not in made
    assert len(made) == 3  # replaced ones instead


def test_replaced_sentences_tell_of_another_object(drawn) -> None:
    made = negatives_of("the red cube moved", 5, [*RED_CUBE, -1, -1], (0, 3, 0), drawn)
    assert len(made) == 3
    for text in made:
        claim = read_claim(text)
        assert claim.change_type == "move"
        assert claim.subject is not None
        assert claim.subject.attributes != {"color": "red", "shape": "cube"}


def test_nothing_to_replace_is_filled_up_by_retrieval(drawn) -> None:
    made = negatives_of("the thing moved", 5, [*RED_CUBE, -1, -1], (2, 2, 2), drawn)
    assert len(made) == 6


def test_one_negative_of_a_change_denies_it(drawn) -> None:
    captions = captions_of(drawn, plain=False)
    ids, _ = SceneNegatives(captions, counts=(2, 2, 2), denials=True)(batch_of(drawn, captions))
    denials = [sum(says_no_change(decode(row)) for row in rows) for rows in ids.tolist()]
    assert set(denials[::2]) == {1}
    assert set(denials[1::2]) == {0}  # where nothing changed they would be true


def test_too_few_captions(drawn) -> None:
    with pytest.raises(DataError, match="too few"):
        SceneNegatives(captions_of(drawn, plain=False)[:4], counts=(2, 2, 2))
