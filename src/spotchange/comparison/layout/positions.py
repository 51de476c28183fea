"""Where in an image something is, and by how much it moved, in words."""

from __future__ import annotations

from spotchange.results import Box


def place(box: Box, size: tuple[int, int]) -> str:
    """ "at the top left": which ninth of the image the middle of the box lies in."""
    across = (box[0] + box[2] / 2) / max(1, size[0])
    down = (box[1] + box[3] / 2) / max(1, size[1])
    if box[2] >= 0.8 * size[0]:
        across = 0.5
    if box[3] >= 0.8 * size[1]:
        down = 0.5
    row = "top" if down < 1 / 3 else "bottom" if down > 2 / 3 else ""
    column = "left" if across < 1 / 3 else "right" if across > 2 / 3 else ""
    if not row and not column:
        return "in the middle"
    if not row:
        return f"on the {column}"
    return f"at the {row} {column}".rstrip()


def distance(right: int, down: int) -> str:
    """ "12 pixels to the right and 3 pixels up"."""
    steps = []
    if right:
        steps.append(f"{count(abs(right))} to the {'right' if right > 0 else 'left'}")
    if down:
        steps.append(f"{count(abs(down))} {'down' if down > 0 else 'up'}")
    return " and ".join(steps)


def count(pixels: int) -> str:
    """ "1 pixel", "12 pixels"."""
    return f"{pixels:,} pixel" + ("" if pixels == 1 else "s")


def with_article(words: str) -> str:
    """ "an orange", "a red"."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
