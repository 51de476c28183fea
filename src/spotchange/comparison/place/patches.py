"""One changed place, cut out of both images, and what its pixels tell: ground, ink, colours, displacement."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.positions import with_article
from spotchange.comparison.layout.regions import bounds, cut
from spotchange.comparison.place.colours import Colour, most_common, name_of, pack, unpack
from spotchange.comparison.place.textlike import looks_like_text
from spotchange.comparison.result import Mask
from spotchange.results import Box

MARGIN = 3  # pixels round the difference, to see the ground it lies on
SAMPLED = 60_000  # pixels that are enough to judge colours
ROUGH = 24  # levels by which letters at another fraction of a pixel may differ from their neighbourhood
ONE_INK = 0.9  # of the colours' energy along one line
FLAT_SHARE = 0.55  # of the rim that must have one colour to call it the ground


@dataclass(frozen=True, eq=False)
class Patch:
    """The same place of both images: equal-sized cuts, with a rim of what did not change."""

    box_before: Box  # of the difference, without the rim
    box_after: Box
    before: npt.NDArray[np.uint8]  # (height, width, 3), with the rim
    after: npt.NDArray[np.uint8]
    rim: Box  # where the difference lies inside the cuts

    @cached_property
    def words(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Both cuts, one integer a pixel."""
        return pack(self.before), pack(self.after)

    @cached_property
    def mask(self) -> Mask:
        """Pixels that differ."""
        result: Mask = self.words[0] != self.words[1]
        return result

    @cached_property
    def pixels(self) -> int:
        """How many differ."""
        return int(np.count_nonzero(self.mask))

    @cached_property
    def ground(self) -> int | None:
        """The packed colour round the difference, the same in both, or None where the rim has no one colour."""
        rims = [np.concatenate([w[0], w[-1], w[1:-1, 0], w[1:-1, -1]]) for w in self.words]
        same = np.concatenate(rims)
        colour, share = most_common(same)
        return colour if share >= FLAT_SHARE else None

    @cached_property
    def inks(self) -> tuple[Mask, Mask]:
        """What is not ground in each cut; everything where there is no ground."""
        if self.ground is None:
            return np.ones(self.mask.shape, bool), np.ones(self.mask.shape, bool)
        return self.words[0] != self.ground, self.words[1] != self.ground

    @cached_property
    def slight(self) -> bool:
        """Whether the difference is one of smoothing: thin, or hardly visible."""
        levels = np.abs(self.before.astype(np.int16) - self.after.astype(np.int16)).max(axis=2)
        thin = not cv2.erode(self.mask.view(np.uint8), np.ones((3, 3), np.uint8)).any()
        line = min(self.box_before[2:]) <= 4
        return bool(levels.max(initial=0) <= 24 or line or (thin and self.pixels <= 40))

    @cached_property
    def repainted(self) -> bool:
        """Whether both sides show the same shapes at another fraction of a pixel: each pixel is like its neighbours."""
        near = np.ones((3, 3), np.uint8)
        for one, other in ((self.before, self.after), (self.after, self.before)):
            low = cv2.erode(other, near).astype(np.int16) - ROUGH
            high = cv2.dilate(other, near).astype(np.int16) + ROUGH
            if ((one < low) | (one > high)).any():
                return False
        return True

    @cached_property
    def one_ink(self) -> bool:
        """Whether what changed is, on both sides, between the ground and one other colour, as letters are."""
        if self.ground is None:
            return False
        ground = np.array(unpack(self.ground), np.float64)
        for pixels, ink in zip((self.before, self.after), self.inks, strict=True):
            colours = pixels[ink & self.mask].astype(np.float64) - ground
            if len(colours) >= 8:
                energy = np.linalg.eigvalsh(colours.T @ colours)
                if energy[-1] < ONE_INK * energy.sum():
                    return False
        return True

    def colour_map(self) -> tuple[float, list[tuple[int, int, int]]]:
        """How far one colour always becomes one other, both ways, and the pairs (old, new, pixels), most first."""
        step = max(1, self.pixels // SAMPLED)
        old, new = self.words[0][self.mask][::step], self.words[1][self.mask][::step]
        forth, pairs = _determined(old, new)
        back, _ = _determined(new, old)
        return min(forth, back), pairs

    def colour_error(self) -> tuple[float, float]:
        """Levels that the best affine map of colours leaves unexplained, and the mean difference it should explain.

        Smoothed letters, shades and photos in another colour follow such a map; other shapes do not.
        """
        step = max(1, self.pixels // SAMPLED)
        old = self.before[self.mask][::step].astype(np.float64)
        new = self.after[self.mask][::step].astype(np.float64)
        inputs = np.column_stack([old, np.ones(len(old))])
        coefficients, *_ = np.linalg.lstsq(inputs, new, rcond=None)
        return float(np.abs(inputs @ coefficients - new).mean()), float(np.abs(new - old).mean())

    def ink_box(self, side: int) -> Box | None:
        """The rectangle of changed ink in one cut (0 before, 1 after), in the cut's own pixels."""
        return bounds(self.inks[side] & self.mask)

    def shift_candidates(self, count: int = 8) -> list[tuple[int, int]]:
        """Displacements (right, down) at which the changed edges of before and after agree best."""
        edges = [_edges(words) & _grown(self.mask) for words in self.words]
        if min(np.count_nonzero(each) for each in edges) < 6:
            return []
        height, width = self.mask.shape
        size = (cv2.getOptimalDFTSize(2 * height), cv2.getOptimalDFTSize(2 * width))
        spectra = []
        for each in edges:
            plane = np.zeros(size, np.float32)
            plane[:height, :width] = each
            spectra.append(cv2.dft(plane))
        product = cv2.mulSpectrums(spectra[1], spectra[0], 0, conjB=True)
        agreement = cv2.dft(product, flags=cv2.DFT_INVERSE | cv2.DFT_SCALE | cv2.DFT_REAL_OUTPUT)
        agreement[0, 0] = 0
        found = []
        for _ in range(count):
            place = int(agreement.argmax())
            row, column = divmod(place, size[1])
            agreement[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2] = 0
            down, right = row - size[0] * (row > size[0] // 2), column - size[1] * (column > size[1] // 2)
            if abs(down) < height and abs(right) < width:
                found.append((right, down))
        return found

    def shifted_alike(self, right: int, down: int) -> tuple[Mask, Mask]:
        """Changed pixels of before found again in after at the displacement, and those of after they became."""
        height, width = self.mask.shape
        old, new = self.words
        rows_old, columns_old = _overlapping(height, down), _overlapping(width, right)
        rows_new, columns_new = _overlapping(height, -down), _overlapping(width, -right)
        same = old[rows_old, columns_old] == new[rows_new, columns_new]
        kept, came = np.zeros((height, width), bool), np.zeros((height, width), bool)
        kept[rows_old, columns_old] = same
        came[rows_new, columns_new] = same
        return kept & self.mask & self.inks[0], came & self.mask & self.inks[1]


def patch_at(before: npt.NDArray[np.uint8], after: npt.NDArray[np.uint8], box: Box, offset: int = 0) -> Patch:
    """Cut a box of before, and the same box `offset` rows lower of after, with a rim as far as both reach."""
    x, y, width, height = box
    left = min(MARGIN, x)
    top = min(MARGIN, y, y + offset)
    right = min(MARGIN, min(before.shape[1], after.shape[1]) - x - width)
    bottom = min(MARGIN, before.shape[0] - y - height, after.shape[0] - y - offset - height)
    wide = (x - left, y - top, width + left + right, height + top + bottom)
    return Patch(
        box_before=box,
        box_after=(x, y + offset, width, height),
        before=cut(before, wide),  # type: ignore[arg-type]
        after=cut(after, (wide[0], wide[1] + offset, wide[2], wide[3])),  # type: ignore[arg-type]
        rim=(left, top, width, height),
    )


def shifted(mask: Mask, right: int, down: int) -> Mask:
    """The mask displaced within its own frame; what comes in from outside is not set."""
    height, width = mask.shape
    result = np.zeros(mask.shape, bool)
    rows_to, columns_to = _overlapping(height, -down), _overlapping(width, -right)
    result[rows_to, columns_to] = mask[_overlapping(height, down), _overlapping(width, right)]
    return result


def thing(patch: Patch, side: int) -> str:
    """What a cut shows, as far as pixels tell: text, a red shape, an image."""
    ink = patch.inks[side] & patch.mask
    if not ink.any():
        return "something"
    if looks_like_text(ink):
        return "text"
    box = bounds(ink)
    assert box is not None
    inner = patch.words[side][box[1] : box[1] + box[3], box[0] : box[0] + box[2]]
    colours = len(np.unique(inner))
    if colours > 0.2 * inner.size and inner.size > 400:
        return "a picture"
    name = name_of(main_colour(patch.words[side], ink, patch.ground))
    if min(box[2], box[3]) <= 4:
        return f"{with_article(name)} line"
    solid = np.count_nonzero(ink) / (box[2] * box[3])
    return f"{with_article(name)} {'box' if solid > 0.85 else 'shape'}"


def outside(box: Box, patch: Patch, side: int) -> Box:
    """A rectangle of the cut as one of the image, kept within the difference."""
    outer = patch.box_before if side == 0 else patch.box_after
    x, y = box[0] - patch.rim[0], box[1] - patch.rim[1]
    left, top = max(0, x), max(0, y)
    right, bottom = min(outer[2], x + box[2]), min(outer[3], y + box[3])
    return outer[0] + left, outer[1] + top, max(1, right - left), max(1, bottom - top)


def main_colour(words: npt.NDArray[np.uint32], ink: Mask, ground: int | None) -> Colour:
    """The colour a person would name for the ink: the solid one, not the smoothed edges."""
    values, counts = np.unique(words[ink], return_counts=True)
    if ground is None or len(values) == 1:
        return unpack(int(values[counts.argmax()]))
    levels = np.array([unpack(int(value)) for value in values], float)
    contrast = np.abs(levels - np.array(unpack(ground))).sum(axis=1)
    return unpack(int(values[(counts * contrast**2).argmax()]))


def _determined(old: npt.NDArray[np.uint32], new: npt.NDArray[np.uint32]) -> tuple[float, list[tuple[int, int, int]]]:
    """The share of pixels whose new colour is the usual one for their old colour."""
    keys, counts = np.unique((old.astype(np.uint64) << np.uint64(32)) | new, return_counts=True)
    starts = np.flatnonzero(np.diff(keys >> np.uint64(32), prepend=np.uint64(2**63)))
    usual = np.maximum.reduceat(counts, starts).sum()
    order = counts.argsort()[::-1][:8]
    pairs = [(int(keys[n] >> np.uint64(32)), int(keys[n] & np.uint64(2**32 - 1)), int(counts[n])) for n in order]
    # As many colours as pixels are determined by chance: a photo says nothing this way.
    chance = len(starts) / len(old)
    return float(usual / len(old)) - (chance if chance > 0.5 else 0.0), pairs


def _edges(words: npt.NDArray[np.uint32]) -> Mask:
    edges = np.zeros(words.shape, bool)
    edges[:, 1:] |= words[:, 1:] != words[:, :-1]
    edges[1:] |= words[1:] != words[:-1]
    return edges


def _grown(mask: Mask) -> Mask:
    return cv2.dilate(mask.view(np.uint8), np.ones((3, 3), np.uint8)).view(bool)


def _overlapping(length: int, by: int) -> slice:
    """The part of a line of `length` that is still on it after moving by `by`."""
    return slice(max(0, -by), length - max(0, by))
