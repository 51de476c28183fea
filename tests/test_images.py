"""Every kind of image file a user can hand in, good and bad, made here as a real file."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spotchange.errors import ImageError, ImageSizeError
from spotchange.images import image_size, read_image, read_pair, same_pixels, shrunk, size_problem, squash

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def quadrants(width: int = 64, height: int = 48) -> Image.Image:
    """Red, green / blue, white: any flip, turn or colour mistake shows at a corner."""
    image = Image.new("RGB", (width, height), WHITE)
    image.paste(RED, (0, 0, width // 2, height // 2))
    image.paste(GREEN, (width // 2, 0, width, height // 2))
    image.paste(BLUE, (0, height // 2, width // 2, height))
    return image


def corners(image: Image.Image) -> list[tuple[int, ...]]:
    """The four corners' colours: top left, top right, bottom left, bottom right."""
    right, bottom = image.width - 4, image.height - 4
    return [image.getpixel(place) for place in ((3, 3), (right, 3), (3, bottom), (right, bottom))]  # type: ignore[misc]


def close(image: Image.Image, expected: list[tuple[int, int, int]], tolerance: int = 12) -> None:
    assert image.mode == "RGB"
    np.testing.assert_allclose(np.array(corners(image)), np.array(expected), atol=tolerance)


def encoded(image: Image.Image, format_name: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_name, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF"])
def test_reads_every_format_from_path_and_bytes(format_name: str, tmp_path: Path) -> None:
    content = encoded(quadrants(), format_name)
    path = tmp_path / "picture.bin"  # the suffix must not matter
    path.write_bytes(content)
    for source in (path, str(path), content):
        image = read_image(source)
        assert image.size == (64, 48)
        close(image, [RED, GREEN, BLUE, WHITE], tolerance=40 if format_name in ("JPEG", "WEBP") else 0)
    assert image_size(path) == (64, 48)


def test_animated_gif_gives_the_first_frame() -> None:
    other = Image.new("RGB", (64, 48), (9, 9, 9))
    content = encoded(quadrants(), "GIF", save_all=True, append_images=[other, other])
    close(read_image(content), [RED, GREEN, BLUE, WHITE], tolerance=0)


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize(
    ("orientation", "turned"),
    [
        (1, None),
        (2, Image.Transpose.FLIP_LEFT_RIGHT),
        (3, Image.Transpose.ROTATE_180),
        (4, Image.Transpose.FLIP_TOP_BOTTOM),
        (5, Image.Transpose.TRANSPOSE),
        (6, Image.Transpose.ROTATE_90),
        (7, Image.Transpose.TRANSVERSE),
        (8, Image.Transpose.ROTATE_270),
    ],
)
def test_orientation_is_applied(
    format_name: str, orientation: int, turned: Image.Transpose | None, tmp_path: Path
) -> None:
    upright = quadrants()
    stored = upright if turned is None else upright.transpose(turned)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "turned"
    path.write_bytes(encoded(stored, format_name, exif=exif))
    image = read_image(path)
    assert image.size == upright.size == image_size(path)
    close(image, [RED, GREEN, BLUE, WHITE], tolerance=40)


def test_damaged_metadata_does_not_hide_a_sound_image() -> None:
    content = encoded(quadrants(), "JPEG", exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x09garbage")
    with pytest.warns(UserWarning, match="EXIF"):
        assert read_image(content).size == (64, 48)


def half_transparent(mode: str) -> Image.Image:
    """Left half opaque, right half clear over a colour that must not shine through."""
    layer = Image.new("RGBA", (64, 48), (0, 0, 0, 0))
    layer.paste((200, 200, 200, 255), (0, 0, 32, 48))
    return layer.convert(mode)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_lies_over_white(mode: str) -> None:
    close(read_image(encoded(half_transparent(mode), "PNG")), [(200, 200, 200), WHITE] * 2, tolerance=0)


def test_half_alpha_mixes_with_white() -> None:
    image = read_image(encoded(Image.new("RGBA", (8, 8), (255, 0, 0, 128)), "PNG"))
    assert image.getpixel((0, 0)) == (255, 127, 127)


def test_palette_with_transparency() -> None:
    palette = Image.new("P", (64, 48), 0)
    palette.putpalette([255, 0, 0, 0, 0, 255, 0, 0, 0])
    palette.paste(1, (0, 0, 32, 48))
    for format_name in ("PNG", "GIF"):
        image = read_image(encoded(palette, format_name, transparency=0))
        close(image, [BLUE, WHITE, BLUE, WHITE], tolerance=0)


def test_palette_without_transparency() -> None:
    close(read_image(encoded(quadrants().quantize(8), "PNG")), [RED, GREEN, BLUE, WHITE], tolerance=0)


def test_grey_and_one_bit() -> None:
    for mode, format_name in (("L", "PNG"), ("L", "JPEG"), ("1", "PNG"), ("1", "TIFF"), ("L", "BMP")):
        close(read_image(encoded(Image.new(mode, (32, 32), 255), format_name)), [WHITE] * 4, tolerance=1)


@pytest.mark.parametrize("format_name", ["PNG", "TIFF"])
def test_sixteen_bit_grey_keeps_its_tones(format_name: str) -> None:
    ramp = np.linspace(0, 65535, 256).round().astype(np.uint16)
    image = read_image(encoded(Image.fromarray(np.tile(ramp, (8, 1))), format_name))
    np.testing.assert_array_equal(np.asarray(image)[0, :, 0], np.arange(256))


def test_sixteen_bit_grey_with_a_transparent_value() -> None:
    grey = Image.fromarray(np.full((16, 16), 1000, np.uint16))
    close(read_image(encoded(grey, "PNG", transparency=1000)), [WHITE] * 4, tolerance=0)


def test_sixteen_bit_colour_png() -> None:
    content = deep_png(np.full((8, 8, 3), (65535, 32896, 257), dtype=">u2"))
    assert read_image(content).getpixel((4, 4)) == (255, 128, 1)


def deep_png(values: np.ndarray) -> bytes:
    """A 16-bit RGB PNG, which Pillow reads but cannot write."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width, _ = values.shape
    lines = b"".join(b"\0" + values[row].tobytes() for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def test_float_tiff() -> None:
    values = np.linspace(0, 1, 256, dtype=np.float32)
    image = read_image(encoded(Image.fromarray(np.tile(values, (4, 1))), "TIFF"))
    np.testing.assert_array_equal(np.asarray(image)[0, :, 0], np.arange(256))


@pytest.mark.parametrize("format_name", ["JPEG", "TIFF"])
def test_cmyk(format_name: str) -> None:
    content = encoded(quadrants().convert("CMYK"), format_name)
    assert Image.open(io.BytesIO(content)).mode == "CMYK"
    close(read_image(content), [RED, GREEN, BLUE, WHITE], tolerance=40)


def test_pillow_images_and_arrays() -> None:
    source = half_transparent("RGBA")
    close(read_image(source), [(200, 200, 200), WHITE] * 2, tolerance=0)
    assert source.mode == "RGBA"
    pixels = np.asarray(quadrants())
    for array in (pixels, pixels.astype(np.uint16) * 257, pixels.astype(np.float32) / 255):
        close(read_image(array), [RED, GREEN, BLUE, WHITE], tolerance=0)
    for grey in (np.full((8, 8), 255, np.uint8), np.ones((8, 8, 1)), np.ones((8, 8), bool)):
        close(read_image(grey), [WHITE] * 4, tolerance=0)
    close(read_image(np.zeros((8, 8, 4), np.uint8)), [WHITE] * 4, tolerance=0)
    close(read_image(pixels.transpose(2, 0, 1)), [RED, GREEN, BLUE, WHITE], tolerance=0)
    assert read_image(np.zeros((3, 9, 3), np.uint8)).size == (9, 3)  # channels last where both orders fit


def test_tensors_of_either_order_and_any_precision() -> None:
    import torch

    pixels = torch.from_numpy(np.array(quadrants()))
    first = pixels.permute(2, 0, 1)
    for tensor in (pixels, first, first / 255, (first / 255).bfloat16(), (first / 255).requires_grad_()):
        close(read_image(tensor), [RED, GREEN, BLUE, WHITE], tolerance=1)
    close(read_image(torch.ones(8, 8)), [WHITE] * 4, tolerance=0)
    for unfit, reason in (
        (torch.zeros(3, 9, 3), "first or last"),
        (torch.zeros(1, 3, 8, 8), "shape"),
        (first.float(), "from 0 to 1"),
        (first.to(torch.int16), "int16"),
        (torch.zeros(8, 8, device="meta"), "this tensor"),
    ):
        with pytest.raises(ImageError, match=reason):
            read_image(unfit)


def test_file_objects_and_data_urls(tmp_path: Path) -> None:
    content = encoded(quadrants(), "PNG")
    close(read_image(io.BytesIO(content)), [RED, GREEN, BLUE, WHITE], tolerance=0)
    (tmp_path / "picture.png").write_bytes(content)
    with (tmp_path / "picture.png").open("rb") as stream:
        close(read_image(stream), [RED, GREEN, BLUE, WHITE], tolerance=0)
    url = "data:image/png;base64," + base64.b64encode(content).decode()
    close(read_image(url), [RED, GREEN, BLUE, WHITE], tolerance=0)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (io.StringIO("text"), "binary mode"),
        (io.BytesIO(b""), "empty"),
        ("data:text/html;base64,PGI+", "must begin with data:image"),
        ("data:image/png,plain", "must begin with data:image"),
        ("data:image/png;base64,%%%", "not base64"),
        ("data:image/png;base64,AAAA", "not an image"),
        (object(), "cannot read an image from object"),
    ],
)
def test_unfit_file_objects_and_urls_are_refused(source: object, reason: str) -> None:
    with pytest.raises(ImageError, match=reason):
        read_image(source)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((2, 8, 8), np.uint8), "shape"),
        (np.zeros((1, 3, 8, 8), np.uint8), "shape"),
        (np.zeros((0, 8, 3), np.uint8), "shape"),
        (np.zeros(8, np.uint8), "shape"),
        (np.full((8, 8), 2.0), "from 0 to 1"),
        (np.full((8, 8), np.nan), "from 0 to 1"),
        (np.zeros((8, 8), np.int64), "int64"),
    ],
)
def test_unfit_arrays_are_refused(array: np.ndarray, reason: str) -> None:
    with pytest.raises(ImageError, match=reason):
        read_image(array)


def _missing(folder: Path) -> Path:
    return folder / "absent.png"


def _folder(folder: Path) -> Path:
    (folder / "folder.png").mkdir()
    return folder / "folder.png"


def _file(content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "bad").write_bytes(content)
        return folder / "bad"

    return make


def noise(format_name: str, **options: object) -> bytes:
    """An image that does not compress, so that half the file holds half the pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    return encoded(Image.fromarray(pixels), format_name, **options)


def cut(content: bytes, share: float) -> bytes:
    return content[: int(len(content) * share)]


BAD = [
    pytest.param(_missing, "does not exist", id="missing"),
    pytest.param(_folder, "is a folder", id="folder"),
    pytest.param(_file(b""), "empty", id="zero bytes"),
    pytest.param(_file(b"just words\n"), "not an image", id="text"),
    pytest.param(_file(b"\0" * 4096), "not an image", id="zeros"),
    pytest.param(_file(b"P6 8 8 255\n" + b"\0" * 192), "not an image", id="portable pixmap"),
    pytest.param(_file(b"%PDF-1.7\n%abc"), "PDF", id="pdf"),
    pytest.param(_file(b"<svg xmlns='http://www.w3.org/2000/svg'/>"), "SVG", id="svg"),
    pytest.param(_file(b"\0\0\0\x1cftypheic" + b"\0" * 64), "HEIC", id="heic"),
    pytest.param(_file(b"\0\0\0\x1cftypavif" + b"\0" * 64), "AVIF", id="avif"),
    pytest.param(_file(b"\x89PNG\r\n\x1a\n"), "damaged", id="png signature only"),
    pytest.param(_file(b"\xff\xd8\xff"), "damaged", id="jpeg signature only"),
    *[
        pytest.param(_file(cut(noise(name), share)), "damaged", id=f"{name} cut at {share}")
        for name in ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")
        for share in (0.02, 0.5, 0.9)
    ],
]


@pytest.mark.parametrize(("make", "reason"), BAD)
def test_bad_files_are_refused_with_one_line(make: Callable[[Path], Path], reason: str, tmp_path: Path) -> None:
    path = make(tmp_path)
    with pytest.raises(ImageError, match=reason) as caught:
        read_image(path)
    assert "\n" not in caught.value.message
    assert str(path) in caught.value.message


@pytest.mark.filterwarnings("ignore")  # Pillow warns of odd metadata; what counts here is what is raised
@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF"])
def test_any_damage_gives_an_image_or_an_image_error(format_name: str) -> None:
    chance = np.random.default_rng(7)
    whole = noise(format_name)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for place in chance.integers(0, 200, size=3):  # headers, where every byte means something
            damaged[place] = chance.integers(0, 256)
        try:
            assert read_image(bytes(damaged), max_pixels=4_000_000).mode == "RGB"
        except ImageError as error:
            refused += "\n" not in error.message
    assert refused > 5


def test_a_gif_frame_larger_than_its_image_is_refused() -> None:
    content = bytearray(encoded(quadrants(), "GIF"))
    frame = content.index(b"\x2c", 13)  # the image descriptor: left, top, width, height in two bytes each
    content[frame + 5 : frame + 9] = struct.pack("<HH", 60_000, 60_000)
    with pytest.raises(ImageError, match="damaged"):
        read_image(bytes(content))


def test_bad_type_is_refused() -> None:
    with pytest.raises(ImageError, match="NoneType"):
        read_image(None)  # type: ignore[arg-type]


def test_too_many_pixels_are_refused_before_decoding() -> None:
    """An image of 20,000 x 20,000 pixels in a few hundred bytes: decoding it would need 1.2 GB."""
    header = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    bomb = deep_png(np.zeros((1, 1, 3), dtype=">u2"))
    crc = struct.pack(">I", zlib.crc32(b"IHDR" + header))
    bomb = bomb[:16] + header + crc + bomb[16 + len(header) + 4 :]
    with pytest.raises(ImageError, match=r"20000x20000 pixels, more than the limit of 100,000,000"):
        read_image(bomb)
    # With a higher limit the size is no longer the reason: the few bytes there are do not make an image.
    with pytest.raises(ImageError, match="damaged"):
        read_image(bomb[:80], max_pixels=10**9)


@pytest.mark.parametrize(
    ("size", "accepted"),
    [
        ((1, 1_000_000), False),
        ((1_000_000, 1), False),
        ((1, 4097), False),
        ((1, 4096), True),
        ((1280, 30_000), True),
        ((100, 10_001), False),
        ((700, 65_535), True),
        ((700, 65_536), False),
        ((20_000, 20_000), False),
    ],
)
def test_which_sizes_are_accepted(size: tuple[int, int], accepted: bool) -> None:
    assert (size_problem(*size) is None) is accepted
    assert (size_problem(*size[::-1]) is None) is accepted


def test_a_strip_of_two_kilobytes_is_refused_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    strip = encoded(Image.new("L", (1, 1_000_000)), "PNG")
    assert len(strip) < 3000
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(ImageSizeError, match="1x1000000"):
        read_image(strip)


def test_large_images_are_brought_nearer_by_whole_factors() -> None:
    assert shrunk(Image.new("RGB", (3583, 100)), 224, 224).size == (3583, 100)
    assert shrunk(Image.new("RGB", (3584, 100)), 224, 224).size == (1792, 100)
    assert shrunk(Image.new("RGB", (1280, 30_000)), 224, 224).size == (1280, 1875)
    large = quadrants(4000, 3000)
    whole, stepped = (np.asarray(each.resize((50, 40))).astype(int) for each in (large, shrunk(large, 50, 40)))
    assert np.abs(whole - stepped).max() <= 8  # at edges between full colours


def test_pixels_are_compared_to_the_last_one() -> None:
    first = quadrants(2100, 2000)
    second = first.copy()
    assert same_pixels(first, second)
    second.putpixel((2099, 1999), (1, 2, 3))
    assert not same_pixels(first, second)
    assert not same_pixels(first, first.resize((10, 10)))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    for read in (read_image, image_size):
        with pytest.raises(ImageError, match="is not a file"):
            read(tmp_path / "pipe.png")


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_damaged_metadata_do_not_stop_a_turned_image(orientation: int) -> None:
    """Found by an attack: writing the metadata anew after turning failed on entries that were read silently."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "maker"
    stream = io.BytesIO()
    quadrants().save(stream, "JPEG", exif=exif, quality=95)
    for damage in range(0, 40, 3):
        content = bytearray(stream.getvalue())
        place = content.find(b"maker") - 24
        content[place + damage] ^= 0xFF
        with contextlib.suppress(ImageError):  # and nothing else
            assert read_image(bytes(content)).size in ((64, 48), (48, 64))


def test_the_pixel_limit_is_a_setting() -> None:
    content = encoded(quadrants(), "PNG")
    assert read_image(content, max_pixels=64 * 48).size == (64, 48)
    for source in (content, quadrants(), np.asarray(quadrants())):
        with pytest.raises(ImageError, match="64x48"):
            read_image(source, max_pixels=64 * 48 - 1)


def test_a_pair_says_which_side_fails(tmp_path: Path) -> None:
    good = tmp_path / "good.png"
    quadrants().save(good)
    before, after = read_pair(good, np.zeros((5, 7, 3), np.uint8))
    assert (before.size, after.size) == ((64, 48), (7, 5))
    with pytest.raises(ImageError, match=r"^before: .*absent.png does not exist$"):
        read_pair(tmp_path / "absent.png", good)
    with pytest.raises(ImageError, match=r"^after: .*is a folder"):
        read_pair(good, tmp_path)
    with pytest.raises(ImageError, match=r"^before: .*not exist; after: .*empty"):
        read_pair(tmp_path / "absent.png", b"")


def test_fast_jpeg_keeps_the_sides_asked_for() -> None:
    content = encoded(quadrants(1600, 1200), "JPEG")
    quick = read_image(content, smallest_side=224)
    assert quick.size == (400, 300)  # 1600x1200 shrunk by 4; by 8 the short side would be 150
    close(quick, [RED, GREEN, BLUE, WHITE], tolerance=40)
    assert read_image(encoded(quadrants(1600, 1200), "PNG"), smallest_side=224).size == (1600, 1200)


def test_squash_is_antialiased_and_planar() -> None:
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::2] = 255
    grey = squash(Image.fromarray(stripes), 16)
    assert grey.shape == (3, 16, 16)
    assert grey.dtype == np.uint8
    assert np.abs(grey[:, :, 2:-2].astype(int) - 128).max() <= 2  # nearest pixel would give 0 or 255
    assert squash(quadrants(), 30, 20).shape == (3, 20, 30)


def test_reading_images_needs_no_torch() -> None:
    program = "import sys, spotchange.images; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
