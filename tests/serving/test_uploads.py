"""What is sent is judged before it is decoded."""

from __future__ import annotations

import asyncio
import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path

import pytest
from PIL import Image

from spotchange.errors import InputError
from spotchange.serving.api.bodies import MOST_PARTS, _validated
from spotchange.serving.api.problems import Problem
from spotchange.serving.api.schemas import PairIn
from spotchange.serving.api.uploads import Decoder, check_image, decode_base64, is_polyglot, read_checked_pair
from spotchange.serving.page.answers import PageAnswers
from spotchange.serving.settings import ServerSettings, read_api_key

SETTINGS = ServerSettings(max_image_bytes=200_000, max_pixels=1_000_000, max_decoded_pixels=2_000_000)
Draw = Callable[..., bytes]


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few kilobytes that says it is enormous."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100_000))) + chunk(b"IEND", b"")


def refused(content: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        check_image(content, "after", SETTINGS)
    assert caught.value.detail.startswith("after: ")
    return caught.value


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF"])
def test_every_format_passes(draw: Draw, kind: str) -> None:
    content = draw(1, kind=kind)
    assert check_image(content, "before", SETTINGS) == 72 * 48
    assert not is_polyglot(content)
    pair = read_checked_pair(content, draw(2, kind=kind), SETTINGS)
    assert pair.before.size == pair.after.size == (72, 48)


@pytest.mark.parametrize("size", [(1001, 1000), (60_000, 60_000), (2**31 - 1, 1)])
def test_bombs_are_refused_by_their_header(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(*_: object) -> None:
        raise AssertionError("a bomb was decoded")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", decode)
    problem = refused(bomb(*size))
    assert problem.status == 413
    assert "pixels" in problem.detail


def test_strips_are_refused_by_their_header() -> None:
    assert refused(bomb(1, 1_000_000)).status == 413
    assert check_image(bomb(1280, 30_000), "after", ServerSettings()) == 1280 * 30_000


def test_large_pairs_leave_room_for_small_ones() -> None:
    settings = ServerSettings(max_pixels=20_000_000, max_decoded_pixels=80_000_000)

    async def ask() -> list[str]:
        decoder = Decoder(settings)
        done: list[str] = []

        async def hold(name: str, pixels: int) -> None:
            async with decoder.pixels(pixels):
                done.append(name)
                await asyncio.sleep(0)

        async with decoder.pixels(40_000_000):
            large = asyncio.create_task(hold("large", 40_000_000))
            await asyncio.sleep(0)
            await hold("small", 4_000_000)
            assert done == ["small"]
        await large
        decoder.close()
        return done

    assert asyncio.run(ask()) == ["small", "large"]


def test_too_many_bytes() -> None:
    assert refused(bytes(200_001)).status == 413
    with pytest.raises(Problem, match="bytes") as caught:
        decode_base64("A" * 300_000, "before", SETTINGS)
    assert caught.value.status == 413


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"%PDF-1.7 ...",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"PK\x03\x04" + bytes(40),
        bytes(64),
    ],
)
def test_what_is_no_image(content: bytes) -> None:
    assert refused(content).status == 415


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
@pytest.mark.parametrize("share", [0.2, 0.6])
def test_truncated_images(draw: Draw, kind: str, share: float) -> None:
    whole = draw(1, size=(300, 200), kind=kind)
    cut = whole[: int(len(whole) * share)]

    def read() -> None:
        check_image(cut, "before", SETTINGS)
        read_checked_pair(cut, whole, SETTINGS)

    with pytest.raises(Problem) as caught:
        read()
    assert caught.value.status in (415, 422)


def archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        made.writestr("payload.class", "x")
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
@pytest.mark.parametrize(
    "tail", [archive(), b"<script>alert(1)</script>", b"<?php echo 1;", b"Rar!\x1a\x07\x00", b"%PDF-1.4"]
)
def test_images_that_are_something_else_too(draw: Draw, kind: str, tail: bytes) -> None:
    problem = refused(draw(1, kind=kind) + tail)
    assert (problem.status, problem.name) == (422, "polyglot")


def test_a_document_in_an_images_head(draw: Draw) -> None:
    whole = draw(1)
    commented = whole[:33] + chunk(b"tEXt", b"Comment\0%PDF-1.5 obj") + whole[33:]
    assert Image.open(io.BytesIO(commented)).size == (72, 48)
    assert refused(commented).name == "polyglot"


def test_a_second_image_behind_a_photo_is_fine(draw: Draw) -> None:
    # Phones append a depth map or a second exposure to JPEG files.
    assert check_image(draw(1, kind="JPEG") + draw(2, kind="JPEG"), "before", SETTINGS) == 72 * 48


@pytest.mark.parametrize("text", ["not base64!", "QUJD\n", "QUJ", "ÄÖ"])
def test_bad_base64(text: str) -> None:
    with pytest.raises(Problem, match="base64") as caught:
        decode_base64(text, "before", SETTINGS)
    assert caught.value.status == 422


def test_settings_that_cannot_work() -> None:
    with pytest.raises(InputError, match="does not fit"):
        ServerSettings(max_pairs=9, places=8)
    with pytest.raises(InputError, match="memory"):
        ServerSettings(max_pixels=10, max_decoded_pixels=19)


def test_the_key(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPOTCHANGE_API_KEY", raising=False)
    assert read_api_key(None) is None
    monkeypatch.setenv("SPOTCHANGE_API_KEY", "from-the-environment")
    assert read_api_key(None) == "from-the-environment"
    (tmp_path / "key").write_text("from-a-file\n")
    assert read_api_key(tmp_path / "key") == "from-a-file"
    (tmp_path / "key").write_text("short")
    with pytest.raises(InputError, match="at least 8"):
        read_api_key(tmp_path / "key")
    with pytest.raises(InputError, match="cannot read"):
        read_api_key(tmp_path / "none")
    with pytest.raises(InputError, match="not a file"):
        read_api_key(Path("/dev/zero"))


def test_a_body_of_countless_parts_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of empty lists is twenty megabytes of Python, and parsing them keeps everybody else waiting."""

    def parse(*_: object) -> None:
        raise AssertionError("it was parsed")

    assert _validated(PairIn, b'{"before": "", "after": ""}').before == ""
    monkeypatch.setattr("spotchange.serving.api.bodies.json.loads", parse)
    for part in (b"[]", b"{}", b'"a":0'):
        with pytest.raises(Problem, match="not a pair"):
            _validated(PairIn, b'{"before": [' + b",".join([part] * MOST_PARTS) + b"]}")


def test_pixels_of_pages_are_bounded_together(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    """Visitors wait for each other's large images, and are turned away where that takes too long."""
    settings = ServerSettings(max_pixels=72 * 48, max_decoded_pixels=4 * 72 * 48)
    held: list[int] = []

    class Line:
        """Answers a pair with what is left to the others meanwhile."""

        place = staticmethod(nullcontext)

        def submit(self, *_: object) -> Future[int]:
            held.append(answers._pixels_left)
            answered: Future[int] = Future()
            answered.set_result(len(held))
            return answered

    answers = PageAnswers(Line(), settings)  # type: ignore[arg-type]
    with answers._pixels(1):
        monkeypatch.setattr("spotchange.serving.page.answers.LONGEST_WAIT", 0.01)
        with pytest.raises(Problem, match="every place is taken"):
            answers.of_files(draw(1), draw(2))
    answers.of_files(draw(1), draw(2))
    answers.of_files(draw(1, size=(36, 48)), draw(2))
    assert held == [0, 36 * 48]
    assert answers._pixels_left == 2 * 72 * 48
