"""What notebooks show: both images with boxes drawn in, the sentence, the model; progress over many pairs."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.answering.interface import AnswererCard
from spotchange.answering.pair import ImagePair, LazyImage
from spotchange.drawing import marked_image
from spotchange.errors import SpotchangeError
from spotchange.images import encode_image
from spotchange.results import CaptionResult, Region

SIDE = 360  # pixels of an image's longer side, at most
Item = TypeVar("Item")
Heat = npt.NDArray[np.float32]


def remember_images(result: CaptionResult, pair: ImagePair) -> CaptionResult:
    """The result, able to show its images: it keeps what was given (paths, or the objects), nothing decoded."""
    sides = {"before": _Kept(pair.before), "after": _Kept(pair.after)}

    def shown() -> str:
        return "".join(
            kept.figure(side, [region for region in result.regions if region.image == side])
            for side, kept in sides.items()
        )

    result.show_images_with(shown)
    return result


def image_html(side: str, image: Image.Image, regions: Sequence[Region], heat: Heat | None = None) -> str:
    """One image with what changed marked."""
    height = max(1, round(image.height * min(1.0, SIDE / max(image.size))))
    drawn = marked_image(image, np.zeros((1, 1)) if heat is None else heat, regions, height=height)
    content = base64.b64encode(encode_image(drawn, "png")).decode("ascii")
    count = f"{len(regions)} marked" if regions else "nothing marked"
    return (
        '<figure style="display:inline-block;margin:0 8px 8px 0;vertical-align:top">'
        f'<img alt="{side}, {count}" src="data:image/png;base64,{content}">'
        f'<figcaption style="font-size:small">{side}, {count}</figcaption></figure>'
    )


def card_html(card: AnswererCard) -> str:
    """A captioner as a small table."""
    size = "any" if card.image_size is None else f"{card.image_size[0]} x {card.image_size[1]} pixels"
    rows = {
        "model": card.name,
        "architecture": card.architecture,
        "computes at": size,
        "device": card.device,
        "kinds of change": ", ".join(card.change_types) or "-",
    }
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table>{cells}</table>"


def with_progress(items: Iterable[Item], *, total: int | None, wanted: bool | None) -> Iterator[Item]:
    """The items, with a bar: None shows one in notebooks only, where nobody sees a program run otherwise."""
    if not (in_notebook() if wanted is None else wanted):
        yield from items
        return
    widget = in_notebook() and find_spec("ipywidgets") is not None
    bars: Any = import_module("tqdm.notebook" if widget else "tqdm")
    yield from bars.tqdm(items, total=total, unit="pair", desc="captioning")


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return any(each.__name__ == "ZMQInteractiveShell" for each in type(shell).__mro__)


class _Kept:
    """One side of a pair for later: a path with what tells whether its file is still the same, or the object."""

    def __init__(self, image: LazyImage) -> None:
        self._source = image.source
        self._mark = self._state()

    def figure(self, side: str, regions: Sequence[Region]) -> str:
        if self._state() != self._mark:
            return f"<p>The picture {side} has changed on disk since; it is not shown.</p>"
        try:
            return image_html(side, LazyImage(self._source).pil, regions)
        except SpotchangeError as error:
            return f"<p>{escape(side)}: {escape(error.message)}</p>"

    def _state(self) -> tuple[int, int] | None:
        if not isinstance(self._source, str | os.PathLike):
            return None
        try:
            found = os.stat(self._source)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
