"""`--ignore x,y,w,h`: rectangles that are left out."""

from __future__ import annotations

from typing import Annotated

import typer

from spotchange.errors import InputError
from spotchange.results import Box

Ignored = Annotated[
    list[str] | None, typer.Option("--ignore", help="Leave out the rectangle x,y,w,h; may be repeated.")
]


def parse_box(text: str) -> Box:
    """A rectangle given as x,y,width,height in pixels."""
    try:
        x, y, width, height = (int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--ignore {text!r} is not x,y,width,height in whole pixels") from None
    if x < 0 or y < 0 or width < 1 or height < 1:
        raise InputError(f"--ignore {text!r}: x and y must not be negative, width and height must be at least 1")
    return x, y, width, height
