"""Augmentation never makes a caption false: the change stays in view, both images move alike, colours keep names."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from spotchange.config.sources import AugmentSettings
from spotchange.pairs import PairBatch
from spotchange.training.augmentation.augment import augment, changed_box, draw_window

GRID = (8, 12)
HEIGHT, WIDTH = 64, 96


def marked_batch(pairs: int, *, known: bool = True) -> tuple[PairBatch, torch.Tensor]:
    """Gray images with a white square where the change is, and a red one that stands still."""
    draw = torch.Generator().manual_seed(5)
    images = torch.full((pairs, 3, HEIGHT, WIDTH), 60, dtype=torch.uint8)
    mask = torch.zeros(pairs, 2, *GRID, dtype=torch.bool)
    rows = torch.randint(0, GRID[0], (pairs,), generator=draw)
    columns = torch.randint(0, GRID[1], (pairs,), generator=draw)
    for pair, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        images[pair, :, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = 255
        mask[pair, :, row, column] = True
    attributes = torch.full((pairs, 2, *GRID, 4), -1, dtype=torch.int8)
    attributes[mask] = torch.tensor([1, 0, 1, 0], dtype=torch.int8)
    batch = PairBatch(
        before=images,
        after=images.clone(),
        caption_ids=torch.zeros(pairs, 4, dtype=torch.long),
        caption_mask=torch.ones(pairs, 4, dtype=torch.bool),
        change_type=torch.ones(pairs, dtype=torch.long),
        scene_id=torch.arange(pairs),
        patch_attributes=attributes.flatten(2, 3),
        change_mask=mask.flatten(2) if known else None,
    )
    return batch, torch.stack([rows, columns], dim=1)


def test_off_means_untouched() -> None:
    batch, _ = marked_batch(4)
    assert not AugmentSettings().active
    assert torch.equal(augment(batch, AugmentSettings(), grid=GRID).before, batch.before)


def test_window_always_holds_the_change() -> None:
    torch.manual_seed(0)
    batch, _ = marked_batch(500)
    kept, known = changed_box(batch, GRID)
    window = draw_window(kept, known, 0.5)
    assert known
    assert (window[:, :2] <= kept[:, :2] + 1e-6).all()
    assert (window[:, 2:] >= kept[:, 2:] - 1e-6).all()
    assert (window >= -1e-6).all()
    assert (window <= 1 + 1e-6).all()
    sides = window[:, 2] - window[:, 0]
    assert sides.min() >= 0.5**0.5 - 1e-6
    assert sides.min() < 0.8  # and it does crop


def test_unknown_place_loses_at_most_a_tenth_and_is_never_erased() -> None:
    torch.manual_seed(0)
    batch, _ = marked_batch(200, known=False)
    kept, known = changed_box(batch, GRID)
    window = draw_window(kept, known, 0.5)
    areas = (window[:, 2] - window[:, 0]) * (window[:, 3] - window[:, 1])
    assert areas.min() >= 0.9 - 1e-6
    assert torch.equal(augment(batch, AugmentSettings(erase=1.0), grid=GRID).before, batch.before)


def test_geometry_hits_both_images_alike() -> None:
    torch.manual_seed(1)
    batch, _ = marked_batch(16)
    done = augment(batch, AugmentSettings(crop=0.4, erase=1.0), grid=GRID)
    assert torch.equal(done.before, done.after)
    assert not torch.equal(done.before, batch.before)


def test_truth_moves_with_the_images() -> None:
    torch.manual_seed(2)
    batch, _ = marked_batch(64)
    done = augment(batch, AugmentSettings(crop=0.4), grid=GRID)
    bright = done.before.float().mean(dim=1).unflatten(1, (GRID[0], 8)).unflatten(3, (GRID[1], 8)).mean(dim=(2, 4))
    bright = bright.flatten(1) - 60
    marked = done.change_mask[:, 0]
    assert marked.any(dim=1).all()
    assert bright[marked].min() > 40  # every patch that is called changed shows the white square
    assert torch.equal(done.patch_attributes[:, 0, :, 0] == 1, marked)


def test_erasing_spares_the_change() -> None:
    torch.manual_seed(3)
    batch, places = marked_batch(200)
    done = augment(batch, AugmentSettings(erase=1.0), grid=GRID)
    for image, (row, column) in zip(done.before, places.tolist(), strict=True):
        assert (image[:, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] == 255).all()
    assert (done.before != batch.before).flatten(1).any(dim=1).float().mean() > 0.5


@pytest.mark.parametrize("place", ["left", "top"])
def test_nothing_is_mirrored(place: str) -> None:
    """A bright half stays on its side: sentences say left and right."""
    torch.manual_seed(4)
    batch, _ = marked_batch(32)
    images = torch.full_like(batch.before, 50)
    if place == "left":
        images[..., : WIDTH // 2] = 200
    else:
        images[..., : HEIGHT // 2, :] = 200
    batch = replace(batch, before=images, after=images)
    everything = AugmentSettings(crop=0.2, brightness=0.2, contrast=0.2, saturation=0.2, noise=0.02, blur=1.0)
    done = augment(batch, everything, grid=GRID).before.float()
    halves = done.chunk(2, dim=-1 if place == "left" else -2)
    assert (halves[0].flatten(1).mean(1) > halves[1].flatten(1).mean(1)).all()


def test_colours_keep_their_names() -> None:
    """The scenes' eight colours, jittered with the summary's strength: none comes nearest to another's hue."""
    torch.manual_seed(5)
    colours = torch.tensor(
        [[87, 87, 87], [173, 35, 35], [42, 75, 215], [29, 105, 20], [129, 74, 25], [129, 38, 192], [41, 208, 208],
         [255, 238, 51]], dtype=torch.uint8,
    )  # fmt: skip
    batch, _ = marked_batch(8)
    images = colours[:, :, None, None].expand(8, 3, HEIGHT, WIDTH).contiguous()
    batch = replace(batch, before=images, after=images)
    settings = AugmentSettings(brightness=0.4, contrast=0.4, saturation=0.4)

    def hue(rgb: torch.Tensor) -> torch.Tensor:
        centred = rgb.float() - rgb.float().mean(dim=-1, keepdim=True)
        return torch.nn.functional.normalize(centred, dim=-1)

    for _ in range(20):
        seen = augment(batch, settings, grid=GRID).before[:, :, 5, 5]
        nearest = (hue(seen)[1:] @ hue(colours)[1:].T).argmax(dim=1)
        same_hue = {0, 3}  # red and brown differ in brightness more than in hue
        for colour, found in enumerate(nearest.tolist()):
            assert found == colour or {found, colour} == same_hue


def test_separate_photometry_differs_between_the_images() -> None:
    torch.manual_seed(6)
    batch, _ = marked_batch(8)
    alike = augment(batch, AugmentSettings(brightness=0.4), grid=GRID)
    apart = augment(batch, AugmentSettings(brightness=0.4, separate=1.0), grid=GRID)
    assert torch.equal(alike.before, alike.after)
    assert not torch.equal(apart.before, apart.after)
