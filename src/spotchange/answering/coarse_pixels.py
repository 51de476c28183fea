"""What can be said about any two pictures without knowing their world: which regions differ, and how much.

The pictures are first brought together: a small shift of the whole picture and an overall change
of brightness are found, named, and taken out, so that neither is mistaken for a change in the scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from spotchange.answering.regions import boxes_of, places
from spotchange.results import Box, Region

Array = npt.NDArray[np.float32]

WORKING_SIDE = 512  # pixels; larger pictures are compared at this size
CELL = 8  # pixels of the working size a cell of the difference map covers
LARGEST_SHIFT = 0.1  # of a side
BLUR, BLUR_REACH = 1.2, 5  # standard deviation and effective radius, in pixels
VISIBLE_DIFFERENCE = 20.0  # of 255; compression and sensor noise stay below
CERTAIN_DIFFERENCE = 60.0  # no noise reaches this
SHARE_OF_CELL = 0.25  # differing pixels that make a cell differ

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


@dataclass(frozen=True, kw_only=True)
class PixelDifference:
    """How two pictures differ, pixel by pixel."""

    heat: Array  # (rows, columns) in [0, 1], in the before picture's frame
    regions: tuple[Region, ...]
    shift: tuple[int, int]  # pixels the content moved right and down
    brightness: float  # levels of 255 the after picture is brighter overall
    score: float  # in [0, 1]
    sentence: str

    @property
    def changed(self) -> bool:
        """Whether any region differs beyond noise, shift and brightness."""
        return bool(self.regions)


def compare_pixels(before: Image.Image, after: Image.Image, *, ignore: Sequence[Box] = ()) -> PixelDifference:
    """Compare two RGB pictures; if they differ in size, after is brought to before's size."""
    width, height = before.size
    scale = min(1.0, WORKING_SIDE / max(width, height))
    working = (max(CELL, round(width * scale)), max(CELL, round(height * scale)))
    first, second = (_array(picture, working) for picture in (before, after))
    shift = _find_shift(first.mean(axis=2), second.mean(axis=2))
    second, overlap = _undo_shift(second, shift)
    gain, offset = _match_brightness(first[overlap], second[overlap])
    brightness = float(np.mean(second[overlap]) - np.mean(first[overlap]))
    # A pixel at the end of the range may have been clipped there, so it says nothing about brightness.
    difference = np.abs(first - np.clip(second * gain + offset, 0, 255)).max(axis=2)
    difference[~overlap] = 0
    for x, y, w, h in ignore:
        left, top = int(x * scale), int(y * scale)
        difference[top : int(np.ceil((y + h) * scale)), left : int(np.ceil((x + w) * scale))] = 0
    heat, flags = _cells(difference)
    regions = [
        region
        for image in ("before", "after")
        for region in boxes_of(heat, flags, image=image, size=before.size if image == "before" else after.size)
    ]
    full_shift = (round(shift[0] / scale), round(shift[1] / scale))
    score = 1.0 - float(np.exp(-3.0 * np.sort(heat, axis=None)[-4:].mean())) if regions else 0.0
    return PixelDifference(
        heat=heat,
        regions=tuple(regions),
        shift=full_shift,
        brightness=round(brightness, 1),
        score=round(score, 4),
        sentence=_sentence([r for r in regions if r.image == "before"], before.size, full_shift, brightness, flags),
    )


def _array(picture: Image.Image, size: tuple[int, int]) -> Array:
    resized = picture if picture.size == size else picture.resize(size, Image.Resampling.BOX, reducing_gap=3.0)
    # Blurred a little, so that compression's ringing at edges does not count as a difference.
    return np.asarray(resized.filter(ImageFilter.GaussianBlur(BLUR)), dtype=np.float32)


def _find_shift(first: Array, second: Array) -> tuple[int, int]:
    """Whole-picture shift (right, down) by phase correlation; (0, 0) unless it explains most of the difference."""
    rows, columns = first.shape
    window = np.outer(np.hanning(rows), np.hanning(columns))
    spectrum = np.fft.rfft2((second - second.mean()) * window) * np.conj(np.fft.rfft2((first - first.mean()) * window))
    correlation = np.fft.irfft2(spectrum / np.maximum(np.abs(spectrum), 1e-6), s=first.shape)
    down, right = (int(i) for i in np.unravel_index(np.argmax(correlation), correlation.shape))
    down, right = down - rows * (down > rows // 2), right - columns * (right > columns // 2)
    if abs(down) > LARGEST_SHIFT * rows or abs(right) > LARGEST_SHIFT * columns:
        return 0, 0
    moved, overlap = _undo_shift(second[..., None], (right, down))
    unmoved_error = np.abs(first - second)[overlap].mean()
    moved_error = np.abs(first - moved[..., 0])[overlap].mean()
    return (right, down) if moved_error < 0.6 * unmoved_error else (0, 0)


def _undo_shift(picture: Array, shift: tuple[int, int]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The picture moved back, and which of its pixels are real rather than wrapped round."""
    right, down = shift
    rows, columns = picture.shape[:2]
    overlap = np.zeros((rows, columns), dtype=bool)
    edge = BLUR_REACH if right or down else 0  # the blur has mixed in what lies across the seam
    top, left = edge + max(0, -down), edge + max(0, -right)
    overlap[top : rows - edge - max(0, down), left : columns - edge - max(0, right)] = True
    return np.roll(picture, (-down, -right), axis=(0, 1)), overlap


def _match_brightness(first: Array, second: Array) -> tuple[Array, Array]:
    """Gain and offset a channel that map second onto first, fitted to the pixels that agree best."""
    keep = np.ones(len(first), dtype=bool)
    gain, offset = np.ones(3, np.float32), np.zeros(3, np.float32)
    for _ in range(3):
        a, b = second[keep], first[keep]
        spread = a.std(axis=0)
        covariance = ((a - a.mean(axis=0)) * (b - b.mean(axis=0))).mean(axis=0)
        # A flat picture fixes no gain; one outside this range is a different picture, not a brighter one.
        gain = np.where(spread > 2, np.clip(covariance / np.maximum(spread**2, 1e-6), 0.6, 1.6), 1.0).astype(np.float32)
        offset = (b.mean(axis=0) - gain * a.mean(axis=0)).astype(np.float32)
        error = np.abs(first - second * gain - offset).max(axis=1)
        keep = error <= max(np.quantile(error, 0.8), 1.0)
    return gain, offset


def _cells(difference: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Heat of each cell, and whether enough of its pixels differ by more than the pictures' own noise."""
    rows, columns = (side // CELL for side in difference.shape)
    blocks = difference[: rows * CELL, : columns * CELL].reshape(rows, CELL, columns, CELL).swapaxes(1, 2)
    noise = 1.4826 * float(np.median(difference))
    level = min(max(VISIBLE_DIFFERENCE, 3 * noise), CERTAIN_DIFFERENCE)
    differing = (blocks > level).mean(axis=(2, 3))
    heat = np.clip(blocks.mean(axis=(2, 3)) / 128.0, 0, 1).astype(np.float32)
    return heat, differing >= SHARE_OF_CELL


def _sentence(
    regions: list[Region],
    size: tuple[int, int],
    shift: tuple[int, int],
    brightness: float,
    flags: npt.NDArray[np.bool_],
) -> str:
    parts = []
    right, down = shift
    if right or down:
        steps = [f"{abs(right)} pixels to the {'right' if right > 0 else 'left'}"] if right else []
        steps += [f"{abs(down)} pixels {'down' if down > 0 else 'up'}"] if down else []
        parts.append(f"the whole picture is shifted {' and '.join(steps)}")
    if abs(brightness) >= 6:
        parts.append(f"the picture is {'brighter' if brightness > 0 else 'darker'} overall")
    if flags.mean() > 0.5:
        parts.append("the pictures differ almost everywhere")
    elif regions:
        noun = "region differs" if len(regions) == 1 else "regions differ"
        parts.append(f"{NUMBERS[len(regions)]} {noun}: {', '.join(places(regions, size))}")
    else:
        parts.append("nothing else differs" if parts else "no region differs")
    return ", ".join(parts)
