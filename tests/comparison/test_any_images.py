"""Images of any shape, strips and single pixels among them, edited anywhere up to the rim: told, never a failure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from spotchange.comparison import ComparisonOptions, compare

Pixels = npt.NDArray[np.uint8]
UNREAD = ComparisonOptions(read_text=False)


def drawn(chance: np.random.Generator) -> Pixels:
    """Noise, a flat ground or a ramp with rectangles on it."""
    height, width = (int(chance.choice([chance.integers(1, 4), chance.integers(1, 160)])) for _ in range(2))
    ramp = np.add.outer(np.arange(height), np.arange(width)).astype(np.uint8)[..., None].repeat(3, axis=2)
    flat = np.full((height, width, 3), chance.integers(0, 256, 3), np.uint8)
    ground: Pixels = (ramp, flat, chance.integers(0, 256, (height, width, 3), np.uint8))[chance.integers(3)]
    for _ in range(chance.integers(4)):
        top, left = chance.integers(height), chance.integers(width)
        ground[top : top + chance.integers(1, 60), left : left + chance.integers(1, 60)] = chance.integers(0, 256, 3)
    return ground


def edited(before: Pixels, chance: np.random.Generator) -> Pixels:
    """A rectangle filled, often at the rim; rows taken out; everything shifted."""
    after = before.copy()
    height, width = after.shape[:2]
    tall, wide = int(chance.integers(1, height + 1)), int(chance.integers(1, width + 1))
    top, left = (int(chance.choice([0, most, chance.integers(most + 1)])) for most in (height - tall, width - wide))
    kind = chance.integers(4)
    if kind == 0:
        after[top : top + tall, left : left + wide] = chance.integers(0, 256, 3)
    elif kind == 1:
        after[top : top + tall, left : left + wide] = chance.integers(0, 256, (tall, wide, 3))
    elif kind == 2:
        after = np.roll(after, chance.integers(-20, 21, 2), (0, 1))
    else:
        after = np.concatenate([after[:top], after[top + tall // 2 :]])
    return after


@pytest.mark.parametrize("seed", range(4))
def test_any_two_images_are_told(seed: int) -> None:
    chance = np.random.default_rng(seed)
    for _ in range(40):
        before = drawn(chance)
        after = edited(before, chance)
        result = compare(before, after, UNREAD)
        same = np.array_equal(before, after)
        assert result.identical == same
        assert result.changed != same
        assert bool(result.findings) != same


@pytest.mark.parametrize("shape", [(1, 99), (99, 1), (3, 400), (400, 3)])
def test_strips_are_told(shape: tuple[int, int]) -> None:
    before, after = np.random.default_rng(1).integers(0, 256, (2, *shape, 3), np.uint8)
    assert compare(before, after, UNREAD).findings


@pytest.mark.parametrize("shape", [(1, 1), (1, 99), (11, 400), (31, 31), (33, 64)])
def test_small_photos_are_never_called_unchanged_without_a_look(shape: tuple[int, int]) -> None:
    before, after = np.random.default_rng(2).integers(0, 256, (2, *shape, 3), np.uint8)
    result = compare(before, after, ComparisonOptions(preset="photos"))
    assert result.changed
    assert (result.preset == "exact") == (min(shape) < 32)
