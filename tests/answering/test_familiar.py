"""The shipped scene model speaks of scenes only: what is none is answered from its pixels."""

from __future__ import annotations

import io
from importlib import resources

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from spotchange import load
from spotchange.answering.gate import drawn_ground, plausible_scene
from spotchange.answering.pair import ImagePair

GREY = (128, 128, 128)


def disc() -> tuple[Image.Image, Image.Image]:
    """A half-transparent disc on grey, and the grey without it."""
    layer = Image.new("RGBA", (480, 320))
    ImageDraw.Draw(layer).ellipse((180, 100, 300, 220), fill=(60, 60, 70, 128))
    ground = Image.new("RGB", (480, 320), GREY)
    return Image.alpha_composite(ground.convert("RGBA"), layer).convert("RGB"), ground


def clock() -> tuple[Image.Image, Image.Image]:
    """A blurred clock, without and with a red square."""
    images = []
    for square in (False, True):
        image = Image.new("RGB", (480, 320), GREY)
        pen = ImageDraw.Draw(image)
        pen.ellipse((140, 60, 340, 260), fill="white", outline="black", width=4)
        pen.line((240, 160, 240, 90), fill="black", width=6)
        pen.line((240, 160, 300, 190), fill="black", width=6)
        if square:
            pen.rectangle((360, 230, 420, 290), fill=(220, 30, 30))
        images.append(image.filter(ImageFilter.GaussianBlur(4)))
    return images[0], images[1]


@pytest.mark.parametrize("pair", [disc(), clock()], ids=["disc", "clock"])
def test_drawings_get_no_sentence_about_cubes(pair: tuple[Image.Image, Image.Image]) -> None:
    result = load("bundled", threads=1, runtime="onnx").caption(*pair)
    assert result.changed
    assert result.source == "pixels"
    assert "cube" not in result.caption


def test_scenes_pass_the_cheap_look() -> None:
    folder = resources.files("spotchange") / "assets" / "examples"
    befores = sorted(each for each in folder.iterdir() if each.name.endswith("_before.jpg"))
    for before in befores:
        after = folder / before.name.replace("before", "after")
        assert plausible_scene(ImagePair.of(before.read_bytes(), after.read_bytes())), before.name
        assert not drawn_ground(Image.open(io.BytesIO(before.read_bytes())).convert("RGB")), before.name


@pytest.mark.parametrize("degrees", [0, 30, 63, 90, 150])
@pytest.mark.parametrize("blur", [0, 6])
def test_a_drawn_ramp_is_no_lit_ground(degrees: int, blur: int) -> None:
    """Discs on a ramp in any direction, blurred, as JPEG."""
    rows, columns = np.mgrid[:320, :480]
    along = columns / 480 * np.cos(np.radians(degrees)) + rows / 320 * np.sin(np.radians(degrees))
    ramp = (along - along.min()) / np.ptp(along)
    image = Image.fromarray(np.repeat(110 + 60 * ramp[..., None], 3, axis=2).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for x, colour in ((90, (60, 70, 190)), (240, (170, 40, 40)), (340, (40, 120, 60))):
        pen.ellipse((x, 150, x + 70, 220), fill=colour)
    content = io.BytesIO()
    image.filter(ImageFilter.GaussianBlur(blur)).save(content, "JPEG", quality=80)
    assert drawn_ground(Image.open(content))
