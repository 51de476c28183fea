"""The verdict: every pixel counts unless a tolerance says otherwise, and decoders agree with Pillow."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

from spotchange.comparison import ComparisonOptions, compare, read_raster
from spotchange.errors import ImageError, InputError
from spotchange.images import read_image


def encoded(image: Image.Image, format_name: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_name, **options)
    return buffer.getvalue()


def page(seed: int = 0) -> np.ndarray:
    """Something with edges, flat areas and gradients."""
    generator = np.random.default_rng(seed)
    pixels = np.full((60, 80, 3), 255, np.uint8)
    pixels[10:30, 10:40] = generator.integers(0, 256, (20, 30, 3), np.uint8)
    pixels[40:50] = np.linspace(0, 255, 80, dtype=np.uint8)[None, :, None]
    return pixels


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def deep_png(values: np.ndarray) -> bytes:
    """A 16-bit PNG of grey (height, width) or colour (height, width, 3)."""
    height, width = values.shape[:2]
    lines = b"".join(b"\0" + values[row].astype(">u2").tobytes() for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 16, 2 if values.ndim == 3 else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def test_equal_pixels_in_different_files_are_identical() -> None:
    image = Image.fromarray(page())
    first, second = encoded(image, compress_level=1), encoded(image, compress_level=9)
    assert first != second
    result = compare(first, second)
    assert result.identical
    assert not result.changed
    assert (result.diff_pixels, result.diff_ratio, result.largest_difference) == (0, 0.0, 0.0)
    assert result.summary == "the pictures are identical"
    assert result.change_type == "none"


def test_one_level_of_one_pixel_is_a_change() -> None:
    after = page()
    after[59, 79, 2] ^= 1
    result = compare(page(), after)
    assert result.changed
    assert result.diff_pixels == 1
    assert result.diff_ratio == 1 / 4800
    assert 0 < result.largest_difference < 0.01
    assert np.argwhere(result.mask).tolist() == [[59, 79]]
    assert result.heat(6, 8).argmax() == 47


def test_limits() -> None:
    after = page()
    after[0, :5] = 0
    for options, changed in (
        ({"max_diff_pixels": 4}, True),
        ({"max_diff_pixels": 5}, False),
        ({"max_diff_ratio": 0.001}, True),
        ({"max_diff_ratio": 0.002}, False),
        ({"ignore": ((0, 0, 5, 1),)}, False),
        ({"ignore": ((0, 0, 4, 1),)}, True),
        ({"ignore": ((-10, -10, 20, 20),)}, False),
    ):
        result = compare(page(), after, ComparisonOptions(**options))  # type: ignore[arg-type]
        assert result.changed is changed, options
        assert not result.identical


def test_threshold_is_the_distance_of_pixelmatch() -> None:
    grey, other = np.full((4, 4, 3), 119, np.uint8), np.full((4, 4, 3), 136, np.uint8)
    # pixelmatch: 0.5053 * (17 * sum of luma weights)^2 / 35215, rooted
    distance = compare(grey, other).largest_difference
    assert distance == pytest.approx(np.sqrt(0.5053 * 17.0**2 / 35215), rel=1e-4)
    assert not compare(grey, other, ComparisonOptions(preset="tolerant")).changed
    assert compare(grey, other, ComparisonOptions(pixel_threshold=distance - 1e-4)).changed
    assert not compare(grey, other, ComparisonOptions(pixel_threshold=distance + 1e-4)).changed
    assert compare(np.zeros((2, 2), np.uint8), np.full((2, 2), 255, np.uint8)).largest_difference > 0.9


def test_smoothed_edges_are_left_out_only_when_asked() -> None:
    before = np.zeros((9, 9, 3), np.uint8)
    before[:, 5:] = 255
    before[:, 4] = np.linspace(100, 160, 9, dtype=np.uint8)[:, None]
    after = before.copy()
    after[4, 4] = 220
    assert compare(before, after).diff_pixels == 1
    assert compare(before, after, ComparisonOptions(pixel_threshold=0.1)).diff_pixels == 1
    assert compare(before, after, ComparisonOptions(preset="tolerant")).diff_pixels == 0


def test_another_size_is_a_change_and_what_one_side_lacks_counts() -> None:
    result = compare(page(), page()[:50], ComparisonOptions(max_diff_ratio=1.0))
    assert result.changed
    assert result.diff_pixels == 10 * 80
    assert (result.size_before, result.size_after) == ((80, 60), (80, 50))
    wide, tall = np.zeros((2, 6, 3), np.uint8), np.zeros((5, 3, 3), np.uint8)
    mask = compare(wide, tall).mask
    assert mask.shape == (5, 6)
    assert mask.sum() == 2 * 3 + 3 * 3
    assert not mask[2:, 3:].any()
    assert not compare(page(), Image.fromarray(page()).resize((40, 30)), ComparisonOptions(scale=True)).identical


def test_clear_against_white_is_a_change_and_hidden_colour_is_not() -> None:
    clear, white = np.full((4, 4, 4), (255, 255, 255, 0), np.uint8), np.full((4, 4, 3), 255, np.uint8)
    result = compare(encoded(Image.fromarray(clear)), encoded(Image.fromarray(white)))
    assert result.diff_pixels == 16
    assert result.largest_difference > 0.9
    hidden = np.full((4, 4, 4), (1, 2, 3, 0), np.uint8)
    assert compare(clear, hidden).identical
    opaque = np.dstack([page(), np.full((60, 80), 255, np.uint8)])
    assert compare(opaque, page()).identical


def test_sixteen_bits_are_compared_at_full_depth() -> None:
    for shape in ((6, 6), (6, 6, 3)):
        values = np.full(shape, 0x8080, np.uint16)
        other = values.copy()
        other[2, 3] += 1
        result = compare(deep_png(values), deep_png(other))
        assert result.diff_pixels == 1
        assert 0 < result.largest_difference < 1e-4
        assert compare(deep_png(values), np.full((6, 6, 3), 0x80, np.uint8)).identical
        assert compare(values, other).diff_pixels == 1


def turned_png(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(Image.fromarray(page()), exif=exif)


@pytest.mark.parametrize(
    "content",
    [
        encoded(Image.fromarray(page())),
        encoded(Image.fromarray(page()).convert("L")),
        encoded(Image.fromarray(page()).convert("1")),
        encoded(Image.fromarray(page()).quantize(16)),
        encoded(Image.fromarray(page()).quantize(16), transparency=0),
        encoded(Image.fromarray(page()), transparency=(255, 255, 255)),
        encoded(Image.fromarray(page()).convert("LA")),
        encoded(Image.fromarray(np.dstack([page(), page()[..., 0]]))),
        encoded(Image.fromarray(page()), icc_profile=b"not a real profile"),
        turned_png(6),
        encoded(Image.fromarray(page()), save_all=True, append_images=[Image.fromarray(page(1))]),
        encoded(Image.fromarray(page()), "JPEG"),
        encoded(Image.fromarray(page()).convert("CMYK"), "JPEG"),
        encoded(Image.fromarray(page()), "WEBP", save_all=True, append_images=[Image.fromarray(page(1))]),
        encoded(Image.fromarray(page()), "GIF"),
        encoded(Image.fromarray(page()), "TIFF"),
        deep_png(np.arange(256, dtype=np.uint16).reshape(16, 16) * 257),
        deep_png(np.arange(768, dtype=np.uint16).reshape(16, 16, 3) % 256 * 257),
    ],
)
def test_every_decoder_shows_what_pillow_shows(content: bytes) -> None:
    np.testing.assert_array_equal(read_raster(content).rgb, np.asarray(read_image(content)))


def test_interlaced_png() -> None:
    """Adam7, which Pillow reads but does not write: one pixel lies in the first pass alone."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 1)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\1\2\3")) + chunk(b"IEND", b"")
    assert read_raster(b"\x89PNG\r\n\x1a\n" + body).rgb.tolist() == [[[1, 2, 3]]]


def test_profiles_are_noted() -> None:
    image = Image.fromarray(page())
    result = compare(encoded(image, icc_profile=b"one"), encoded(image))
    assert result.identical
    assert "profile" in result.notes[0]


def test_bad_images_are_named() -> None:
    good = encoded(Image.fromarray(page()))
    with pytest.raises(ImageError, match="after: picture is damaged or truncated"):
        compare(good, good[: len(good) // 2])
    with pytest.raises(ImageError, match=r"before: .*does not exist; after: .*empty"):
        compare("nowhere.png", b"")


@pytest.mark.parametrize(
    "options",
    [
        {"preset": "loose"},
        {"pixel_threshold": 2},
        {"max_diff_pixels": -1},
        {"max_diff_ratio": 1.1},
        {"ignore": ((0, 0, 0, 1),)},
    ],
)
def test_bad_options(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        ComparisonOptions(**options)  # type: ignore[arg-type]


def test_comparison_is_light() -> None:
    code = "import sys, spotchange.comparison as c; c.compare(b'', b'') if 0 else None; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
