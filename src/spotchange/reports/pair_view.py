"""One pair to look at: a before/after slider with heat and boxes, as HTML that needs nothing else.

Shared by the report of `compare`, the page's first tab and its batch report. Styles are in `pair_view.css`.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from importlib import resources

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.answering import Answer
from spotchange.drawing import FADE, marked_image
from spotchange.images import encode_image, shrunk
from spotchange.results import Region

VIEW_SIDE = 960  # pixels of the longer side, at most
THUMBNAIL_SIDE = 160
HEAT_SIDE = 120  # heat is coarse: a small image scaled by the browser shows all there is
FAINTEST_HEAT = 0.05

# Handlers stand in the elements, so that a view also works where it is inserted into a page that is already running.
_SLIDE = "this.closest('.sc-stage').style.setProperty('--cut', this.value + '%')"
_MARKS = "this.closest('.sc-view').classList.toggle('sc-plain', !this.checked)"


def view_styles() -> str:
    """The style sheet views need once a page."""
    return resources.files("spotchange.reports").joinpath("pair_view.css").read_text(encoding="utf-8")


def pair_view(answer: Answer, *, side: int = VIEW_SIDE) -> str:
    """Before and after over each other with a slider between them; what changed is marked in both."""
    width, height = answer.before.size
    layers = [
        _layer(image, answer.heat[index], [r for r in answer.result.regions if r.image == name], name, side)
        for index, (name, image) in enumerate((("before", answer.before), ("after", answer.after)))
    ]
    note = ""
    if answer.before.size != answer.after.size:
        sizes = f"before is {width}×{height}, after {answer.after.width}×{answer.after.height} pixels"
        note = f'<span class="sc-note">Sizes differ: {sizes}; after is stretched to fit.</span>'
    marked = bool(answer.result.regions) or float(answer.heat.max()) > FAINTEST_HEAT
    toggle = f'<label class="sc-toggle"><input type="checkbox" checked onchange="{_MARKS}"> Mark what changed</label>'
    shape = f"aspect-ratio:{width}/{height};max-width:calc(74vh*{width / height:.3f});--cut:50%"
    return (
        f'<div class="sc-view"><div class="sc-stage" style="{shape}">'
        f'<div class="sc-side">{layers[0]}</div><div class="sc-side sc-after">{layers[1]}</div>'
        '<input class="sc-range" type="range" min="0" max="100" value="50" '
        f'aria-label="Slider between before (right end) and after (left end)" oninput="{_SLIDE}">'
        '<div class="sc-handle" aria-hidden="true"></div>'
        '<span class="sc-tag" aria-hidden="true">before</span>'
        '<span class="sc-tag sc-tag-after" aria-hidden="true">after</span></div>'
        f'<div class="sc-under">{toggle if marked else ""}{note}</div></div>'
    )


def marked_images(answer: Answer, *, side: int = VIEW_SIDE // 2) -> str:
    """Both images next to each other with heat and boxes drawn in."""
    figures = []
    for index, (name, image) in enumerate((("before", answer.before), ("after", answer.after))):
        regions = [each for each in answer.result.regions if each.image == name]
        drawn = marked_image(image, answer.heat[index], regions, height=_fitting_height(image, side))
        count = f"{len(regions)} marked" if regions else "nothing marked"
        figures.append(
            f'<figure><img alt="{name}, {count}" src="{image_uri(drawn, side=side)}">'
            f"<figcaption>{name} <small>{count}</small></figcaption></figure>"
        )
    return f'<div class="sc-marked">{"".join(figures)}</div>'


def single_view(image: Image.Image, what: str) -> str:
    """An image without a partner."""
    return f'<div class="sc-view"><img class="sc-single" alt="{escape(what)}" src="{image_uri(image)}"></div>'


def thumbnail(image: Image.Image, what: str) -> str:
    """A small image for a table."""
    return f'<img class="sc-thumbnail" alt="{escape(what)}" src="{image_uri(image, side=THUMBNAIL_SIDE)}">'


def image_uri(image: Image.Image, *, side: int = VIEW_SIDE) -> str:
    """The image as a data URI, no larger than `side`."""
    shown = image
    if max(image.size) > side:
        shown = shrunk(image, side, side)
        shown = shown.copy() if shown is image else shown
        shown.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=3.0)
    packed = io.BytesIO()
    shown.save(packed, "JPEG", quality=85)
    return _uri("jpeg", packed.getvalue())


def _layer(image: Image.Image, heat: npt.NDArray[np.float32], regions: Sequence[Region], name: str, side: int) -> str:
    width, height = image.size
    frames = "".join(
        f'<span class="sc-box" style="left:{100 * x / width:.2f}%;top:{100 * y / height:.2f}%;'
        f'width:{100 * w / width:.2f}%;height:{100 * h / height:.2f}%"></span>'
        for x, y, w, h in (region.box for region in regions)
    )
    veil = ""
    if float(heat.max()) > FAINTEST_HEAT:
        veil = f'<img class="sc-heat" alt="" src="{_veil_uri(heat)}">'
    return f'<img alt="{name}" src="{image_uri(image, side=side)}">{veil}{frames}'


def _veil_uri(heat: npt.NDArray[np.float32]) -> str:
    """A white veil over what did not change, as `drawing.overlay` fades it: the change keeps its colours."""
    rows, columns = heat.shape
    scale = HEAT_SIDE / max(rows, columns)
    kept = np.clip(heat, 0, 1)
    strength = Image.fromarray(((1 - kept) * kept.max() * (1 - FADE) * 255).astype(np.uint8)).resize(
        (max(1, round(columns * scale)), max(1, round(rows * scale))), Image.Resampling.BICUBIC
    )
    layer = Image.new("RGBA", strength.size, "white")
    layer.putalpha(strength)
    return _uri("png", encode_image(layer))


def _fitting_height(image: Image.Image, side: int) -> int:
    """The height at which the longer side is no longer than `side`."""
    return max(1, round(image.height * min(1.0, side / max(image.size))))


def _uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
