"""One compared pair to look at: slider, side by side, blink and diff over the same three images."""

from __future__ import annotations

from html import escape
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from spotchange.answering import ImagePair, LazyImage
from spotchange.comparison import Comparison
from spotchange.files import write_bytes
from spotchange.images import encode_image
from spotchange.regression.diff_image import diff_image
from spotchange.regression.one_pair import LAST_FILE
from spotchange.reports.pair_view import image_uri

if TYPE_CHECKING:
    from PIL import Image

    from spotchange.regression.one_pair import Outputs

VIEW_WIDTH = 960  # pixels; a tall page keeps its width and scrolls
MODES = (("slider", "Slider"), ("sides", "Side by side"), ("blink", "Blink"), ("diff", "Diff"))


def comparison_view(pair: ImagePair, found: Comparison, name: str, outputs: Outputs) -> str:
    """The views of one pair; handlers are in the report's script."""
    diff = diff_image(pair.before.source, found)
    height, width = found.mask.shape
    boxes = {
        "before": [box for finding in found.findings for box in finding.boxes_before],
        "after": [box for finding in found.findings for box in finding.boxes_after],
        "diff": [],
    }
    layers = "".join(
        _layer(side, image, boxes[side], (width, height))
        for side, image in (("before", pair.before.pil), ("after", pair.after.pil), ("diff", diff))
    )
    tabs = "".join(
        f'<button type="button" data-mode="{mode}"{" class=on" if mode == "slider" else ""}>{label}</button>'
        for mode, label in MODES
    )
    full = _full_size(pair, diff, name, outputs)
    return (
        f'<div class="cv" data-mode="slider"><div class="cv-tabs" role="group" aria-label="View">{tabs}'
        '<label><input type="checkbox" class="cv-marks" checked> boxes</label>'
        f"{full}</div>"
        f'<div class="cv-scroll"><div class="cv-stage" style="--shape:{width}/{height}">{layers}'
        '<input class="cv-range" type="range" min="0" max="100" value="50" '
        'aria-label="Slider between before (right end) and after (left end)"></div></div></div>'
    )


def _layer(side: str, image: Image.Image, boxes: list[tuple[int, int, int, int]], frame: tuple[int, int]) -> str:
    width, height = frame
    frames = "".join(
        f'<span class="sc-box" style="left:{100 * x / width:.3f}%;top:{100 * y / height:.3f}%;'
        f'width:{100 * w / width:.3f}%;height:{100 * h / height:.3f}%"></span>'
        for x, y, w, h in boxes
    )
    # Images of different sizes are laid from the top left at one scale, as they are compared.
    size = f"width:{100 * image.width / width:.3f}%;height:{100 * image.height / height:.3f}%"
    source = image_uri(image, side=max(VIEW_WIDTH, round(VIEW_WIDTH * image.height / image.width)))
    return (
        f'<div class="cv-layer cv-{side}"><img alt="{side}" style="{size}" src="{source}">{frames}'
        f'<span class="cv-tag">{side}</span></div>'
    )


def _full_size(pair: ImagePair, diff: Image.Image, name: str, outputs: Outputs) -> str:
    """Links to the images at full size, which lie beside the report."""
    if outputs.files_dir is None:
        return ""
    folder = outputs.files_of(name)
    suffix = PurePosixPath(name).suffix
    contents = {
        f"before{suffix}": _bytes(pair.before),
        f"after{suffix}": _bytes(pair.after),
        LAST_FILE: encode_image(diff),
    }
    for file, content in contents.items():
        write_bytes(outputs.files_dir / folder / file, content)
    links = " ".join(
        f'<a href="{escape(f"{outputs.link}/{folder}/{file}")}" target="_blank">{file.partition(".")[0]}</a>'
        for file in contents
    )
    return f'<span class="cv-full">full size: {links}</span>'


def _bytes(image: LazyImage) -> bytes:
    return image.encoded if image.encoded is not None else encode_image(image.pil)
