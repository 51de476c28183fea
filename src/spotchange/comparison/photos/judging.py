"""The verdict on photos: did the content change, once camera and light are taken out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.photos.alignment import GOOD, align_photos
from spotchange.comparison.photos.content import Content, Field, differing_content
from spotchange.comparison.photos.light import match_light
from spotchange.comparison.photos.things import findings_of, things_in
from spotchange.comparison.result import Finding, Mask
from spotchange.results import Box

Pixels = npt.NDArray[np.uint8]

SMALLEST = 32  # pixels of a side: less cannot be aligned, and no camera took it
NEARLY_ALL = 0.55  # of the image: beyond this, places say nothing


@dataclass(frozen=True, eq=False)
class PhotoVerdict:
    """What differs between two photos besides camera and light."""

    mask: Mask
    findings: list[Finding]
    notes: tuple[str, ...]
    after: Pixels
    """After in before's frame, in its own light."""
    levels: Field
    """At the working size: by how many levels places differ, grain and blocks averaged away."""
    zoom: float = 1.0
    """How much larger things are in after."""
    aligned: bool = True
    """Whether the two views could be brought together: if not, an empty mask shows nothing."""

    @property
    def changed(self) -> bool:
        """Whether the content changed."""
        return bool(self.mask.any())


def judge_photos(before: Pixels, after: Pixels, ignore: Sequence[Box]) -> PhotoVerdict:
    """Align, match the light, and compare what remains; the mask is in before's frame."""
    aligned = align_photos(before, after)
    light = match_light(before, aligned.after, aligned.valid)
    valid = aligned.valid.copy()
    for x, y, width, height in ignore:
        valid[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)] = False
    content = differing_content(before.astype(np.float32), light.after, valid)
    mask = _full_mask(content, before.shape[1], before.shape[0]) & valid
    size = (before.shape[1], before.shape[0])
    everywhere: list[Finding] = []
    if aligned.sentence:
        everywhere.append(_of_all("camera", aligned.sentence, before, after))
    if light.kind and light.sentence:
        everywhere.append(_of_all(light.kind, light.sentence, before, after))
    notes: tuple[str, ...] = ()
    if not aligned.good:
        sentence = "the two views could not be brought together, so what differs may be the view"
        everywhere.insert(0, _of_all("misaligned", sentence, before, after))
    elif aligned.trust < GOOD:
        notes = (
            f"the views agree only in part (correlation of edges {aligned.trust:.2f}), so small findings are uncertain",
        )
    if mask.mean() > NEARLY_ALL:
        local = [_of_all("everything", "most of the picture is different", before, after)]
    else:
        local = findings_of(things_in(content), content.scale, size)
    # What happened comes first; how it was seen comes after.
    return PhotoVerdict(mask, [*local, *everywhere], notes, aligned.after, content.levels, aligned.zoom, aligned.good)


def _full_mask(content: Content, width: int, height: int) -> Mask:
    small = np.zeros(content.difference.shape, np.uint8)
    for region in content.regions:
        small |= (region.mask & (content.difference > 1)).view(np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST) > 0


def _of_all(kind: str, sentence: str, before: Pixels, after: Pixels) -> Finding:
    return Finding(
        kind=kind,
        sentence=sentence,
        boxes_before=((0, 0, before.shape[1], before.shape[0]),),
        boxes_after=((0, 0, after.shape[1], after.shape[0]),),
    )
