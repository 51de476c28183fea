"""Photos: camera and light are taken out and reported, what remains is the content."""

from __future__ import annotations

import numpy as np
from drawn_pages import photo
from PIL import Image

from spotchange.comparison import ComparisonOptions, compare

PHOTOS = ComparisonOptions(preset="photos")


def noisy(pixels: np.ndarray, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0, 3, pixels.shape)
    return np.clip(pixels + noise, 0, 255).astype(np.uint8)


def retaken(pixels: np.ndarray, *, turn: float = 2.0, crop: int = 6) -> np.ndarray:
    """The same content from a hand-held camera, a little nearer."""
    image = Image.fromarray(pixels)
    width, height = image.size
    turned = image.rotate(turn, Image.Resampling.BICUBIC, expand=False)
    inner = turned.crop((crop + 8, crop + 8, width - crop - 8, height - crop - 8))
    return np.asarray(inner.resize((width, height), Image.Resampling.BICUBIC))


def with_disc(pixels: np.ndarray, colour: tuple[int, int, int], x: int, y: int, radius: int = 18) -> np.ndarray:
    rows, columns = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
    changed = pixels.copy()
    changed[(rows - y) ** 2 + (columns - x) ** 2 <= radius**2] = colour
    return changed


def test_noise_is_no_change_and_no_identity() -> None:
    scene = photo()
    result = compare(noisy(scene, 1), noisy(scene, 2), PHOTOS)
    assert not result.changed
    assert not result.identical
    assert result.diff_pixels == 0


def test_a_moved_camera_is_reported_and_not_a_change() -> None:
    scene = photo()
    result = compare(noisy(scene, 1), noisy(retaken(scene), 2), PHOTOS)
    assert not result.changed
    assert [finding.kind for finding in result.findings] == ["camera"]
    assert "nearer" in result.summary
    assert "turned" in result.summary


def test_other_light_is_reported_and_not_a_change() -> None:
    scene = photo()
    darker = np.clip(scene * 0.8 - 6, 0, 255).astype(np.uint8)
    result = compare(noisy(scene, 1), noisy(darker, 2), PHOTOS)
    assert not result.changed
    assert result.summary == "the content is the same; the picture is darker overall"


def test_what_came_is_found_under_another_camera_and_light() -> None:
    scene = photo()
    after = np.clip(retaken(with_disc(scene, (230, 20, 20), 220, 120)) * 0.9, 0, 255).astype(np.uint8)
    result = compare(noisy(scene, 1), noisy(after, 2), PHOTOS)
    assert result.changed
    assert result.findings[0].kind == "appeared"
    assert "red" in result.summary
    x, y, width, height = result.findings[0].boxes_after[0]
    assert abs(x + width / 2 - 220) < 8
    assert abs(y + height / 2 - 120) < 8
    assert {finding.kind for finding in result.findings[1:]} <= {"camera", "brightness"}


def test_what_moved_is_one_finding() -> None:
    ground = np.full((240, 320, 3), 150, np.uint8)
    one = with_disc(ground, (20, 60, 220), 80, 80)
    other = with_disc(ground, (20, 60, 220), 240, 160)
    result = compare(noisy(one, 1), noisy(other, 2), PHOTOS)
    assert [finding.kind for finding in result.findings] == ["moved"]
    right, down = result.findings[0].shift or (0, 0)
    assert abs(right - 160) <= 3
    assert abs(down - 80) <= 3
    assert "blue" in result.summary


def test_views_without_anything_in_common_are_said_to_be() -> None:
    result = compare(photo(1), photo(2), PHOTOS)
    assert result.changed
    assert "misaligned" in {finding.kind for finding in result.findings}


def test_ignored_places_are_not_judged() -> None:
    scene = photo()
    after = with_disc(scene, (230, 20, 20), 220, 120)
    result = compare(noisy(scene, 1), noisy(after, 2), ComparisonOptions(preset="photos", ignore=((190, 90, 60, 60),)))
    assert not result.changed
