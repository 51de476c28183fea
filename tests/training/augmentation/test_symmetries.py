"""Mirrored and turned pairs: images, masks and words of place move together, and no caption becomes false."""

from __future__ import annotations

from dataclasses import replace

import torch

from spotchange.language.vocabulary import build_tokenizer
from spotchange.pairs import PairBatch
from spotchange.training.augmentation.symmetries import PlaceWords, mirror_and_turn
from spotchange.training.start import extended

SIDE, CELLS = 8, 4
CORNERS = {"top left": (0, 0), "top right": (0, 1), "bottom left": (1, 0), "bottom right": (1, 1)}
TOKENIZER = extended(build_tokenizer(), [f"houses at the {corner} vertical" for corner in CORNERS])


def batch_of(captions: list[str], quarters: list[tuple[int, int]], shape: tuple[int, int] = (SIDE, SIDE)) -> PairBatch:
    """Images that are white in one quarter of the after image, where the mask is too."""
    height, width = shape
    rows, columns = CELLS, CELLS * width // height
    after = torch.zeros(len(captions), 3, height, width, dtype=torch.uint8)
    mask = torch.zeros(len(captions), 2, rows, columns, dtype=torch.bool)
    for pair, (down, across) in enumerate(quarters):
        for planes in (after, mask):
            half = (planes.shape[-2] // 2, planes.shape[-1] // 2)
            quarter = planes[pair].unflatten(-2, (2, half[0])).unflatten(-1, (2, half[1]))
            quarter[..., down, :, across, :] = 255 if planes is after else True
    encoded = TOKENIZER.encode_batch(captions)
    longest = max(len(each.ids) for each in encoded)
    ids = torch.zeros(len(captions), longest, dtype=torch.long)
    for pair, each in enumerate(encoded):
        ids[pair, : len(each.ids)] = torch.tensor(each.ids)
    return PairBatch(
        before=torch.zeros_like(after),
        after=after,
        caption_ids=ids,
        caption_mask=ids > 0,
        change_type=torch.ones(len(captions), dtype=torch.long),
        scene_id=torch.arange(len(captions)),
        change_mask=mask.flatten(2),
    )


def quarter_of(planes: torch.Tensor) -> tuple[int, int]:
    rows, columns = torch.nonzero(planes, as_tuple=True)
    return int(rows[0]) * 2 // planes.shape[0], int(columns[0]) * 2 // planes.shape[1]


def test_captions_name_the_corner_where_the_change_then_is() -> None:
    torch.manual_seed(0)
    names = list(CORNERS) * 50
    moved = mirror_and_turn(
        batch_of([f"houses at the {name}" for name in names], [CORNERS[name] for name in names]),
        PlaceWords.of(TOKENIZER),
        grid=(CELLS, CELLS),
    )
    said = [TOKENIZER.decode(ids).removeprefix("houses at the ") for ids in moved.caption_ids.tolist()]
    assert set(said) == set(CORNERS)
    for pair, corner in enumerate(said):
        assert quarter_of(moved.after[pair, 0]) == CORNERS[corner]
        assert quarter_of(moved.change_mask[pair, 1].view(CELLS, CELLS)) == CORNERS[corner]
    assert sum(one != other for one, other in zip(said, names, strict=True)) > 100


def test_only_captions_that_name_no_place_are_turned_by_a_quarter() -> None:
    torch.manual_seed(0)
    batch = batch_of(["houses", "houses vertical"] * 50, [(0, 0)] * 100)
    # A horizontal stripe stays one in any mirror and stands up after a quarter turn.
    batch.after[:] = 0
    batch.after[:, :, 0] = 255
    moved = mirror_and_turn(batch, PlaceWords.of(TOKENIZER), grid=(CELLS, CELLS))
    stands = (moved.after[:, 0] > 0).all(dim=1).any(dim=1)
    assert 10 < int(stands[0::2].sum()) < 40
    assert not stands[1::2].any()
    assert torch.equal(moved.caption_ids, batch.caption_ids)


def test_images_that_are_not_square_are_only_mirrored() -> None:
    torch.manual_seed(0)
    batch = batch_of(["houses"] * 20, [(0, 0)] * 20, shape=(SIDE, 2 * SIDE))
    moved = mirror_and_turn(batch, PlaceWords.of(TOKENIZER), grid=(CELLS, 2 * CELLS))
    assert moved.after.shape == batch.after.shape
    assert {quarter_of(planes) for planes in moved.after[:, 0]} == set(CORNERS.values())


def test_a_word_without_an_opposite_keeps_its_pair_as_it_is() -> None:
    torch.manual_seed(0)
    lopsided = extended(build_tokenizer(), ["upper", "upper"])  # the vocabulary has no "lower"
    words = PlaceWords.of(lopsided)
    assert words.stuck[lopsided.token_to_id("upper")]
    batch = batch_of(["houses"] * 20, [(0, 0)] * 20)
    batch.caption_ids[:, 1] = lopsided.token_to_id("upper")
    moved = mirror_and_turn(batch, words, grid=(CELLS, CELLS))
    assert torch.equal(moved.after, batch.after)


def test_features_of_a_grid_move_as_images_do() -> None:
    names = list(CORNERS) * 20
    images = batch_of([f"houses at the {name}" for name in names], [CORNERS[name] for name in names], (CELLS, CELLS))
    features = replace(
        images,
        before=images.before.flatten(2).transpose(1, 2).half(),  # (pairs, cells, channels)
        after=images.after.flatten(2).transpose(1, 2).half(),
    )
    words = PlaceWords.of(TOKENIZER)
    torch.manual_seed(0)
    as_images = mirror_and_turn(images, words, grid=(CELLS, CELLS))
    torch.manual_seed(0)
    as_cells = mirror_and_turn(features, words, grid=(CELLS, CELLS))
    assert as_cells.after.shape == features.after.shape
    assert torch.equal(as_cells.after, as_images.after.flatten(2).transpose(1, 2).half())
    assert torch.equal(as_cells.caption_ids, as_images.caption_ids)
    assert not torch.equal(as_cells.after, features.after)
