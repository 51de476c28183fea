"""What happened in the changed regions of photos: something came, went, moved, or changed colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.positions import place
from spotchange.comparison.photos.content import Content, DifferingRegion, Mask
from spotchange.comparison.place.colours import Colour, name_of
from spotchange.comparison.result import Finding
from spotchange.results import Box

FOREIGN = 14.0  # distance in Lab from all colours round a region
PARTLY = 0.3  # of a region that must be foreign on one side only to be a thing of its own
STRONG_COLOUR = 0.5  # of the brightest channel between the strongest and the weakest
SAME_COLOUR = 22.0  # distance in Lab of a thing that moved
SAME_SHAPE = 0.75  # correlation of the edges of a thing that only changed colour


@dataclass(frozen=True, eq=False)
class Thing:
    """Something that is on one side only, or different on both."""

    kind: str  # appeared, disappeared, recoloured or replaced
    mask: Mask
    box: Box
    colours: tuple[Colour, Colour]  # before and after
    lab: npt.NDArray[np.float32]  # mean colour of the thing itself
    strength: float


def things_in(content: Content) -> list[Thing]:
    """The things of all regions, those on one side only apart from each other."""
    labs = [
        np.asarray(cv2.cvtColor((pixels / 255).clip(0, 1).astype(np.float32), cv2.COLOR_RGB2LAB), np.float32)
        for pixels in (content.before, content.after)
    ]
    return [thing for region in content.regions for thing in _things(region, content, labs)]


def _things(region: DifferingRegion, content: Content, labs: Sequence[npt.NDArray[np.float32]]) -> list[Thing]:
    ring = _ring(region.mask)
    others = np.zeros_like(ring)
    for other in content.regions:
        others |= other.mask
    clear = ring & ~others if (ring & ~others).sum() > 40 else ring
    strange = [_foreign(lab, region.mask, clear) for lab in labs]
    differing = region.mask & (content.difference > 1)
    gone, came = differing & strange[0] & ~strange[1], differing & strange[1] & ~strange[0]
    total = max(1, int(differing.sum()))
    found = []
    for kind, mask, side in (("disappeared", gone, 0), ("appeared", came, 1)):
        whole = _solid(mask)
        if whole.sum() >= PARTLY * total:
            found.append(_thing(kind, whole, content, labs, side, region.strength, itself=mask & whole))
    if found:
        return found
    kind = "recoloured" if _same_shape(content, region) else "replaced"
    return [_thing(kind, differing if differing.any() else region.mask, content, labs, 1, region.strength)]


def _ring(mask: Mask) -> Mask:
    reach = max(5, round(0.03 * max(mask.shape)))
    grown = cv2.dilate(mask.view(np.uint8), cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1,) * 2))
    inner = cv2.dilate(mask.view(np.uint8), np.ones((5, 5), np.uint8))
    result: Mask = (grown > 0) & (inner == 0)
    return result


def _foreign(lab: npt.NDArray[np.float32], mask: Mask, ring: Mask) -> Mask:
    """Pixels of the region whose colour none of the main colours round it comes near."""
    around = lab[ring]
    if len(around) < 12:
        return mask
    cv2.setRNGSeed(17)
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_MAX_ITER, 12, 0.5)
    sample = around[:: max(1, len(around) // 1500)].astype(np.float32)
    clusters = min(5, len(sample))
    _, labels, centres = cv2.kmeans(sample, clusters, None, criteria, 1, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    counts = np.bincount(labels.ravel(), minlength=clusters)
    centres = centres[counts >= 0.04 * len(sample)]
    foreign = np.zeros(mask.shape, bool)
    inside = lab[mask]
    distances = np.linalg.norm(inside[:, None] - centres[None], axis=2).min(axis=1)
    foreign[mask] = distances > FOREIGN
    return foreign


def _solid(mask: Mask) -> Mask:
    """The largest piece, its holes and fringes evened out."""
    closed = cv2.morphologyEx(mask.view(np.uint8), cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    total, labels, stats, _ = cv2.connectedComponentsWithStats(closed, connectivity=8)
    if total < 2:
        return mask
    result: Mask = labels == 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())
    return result


def _same_shape(content: Content, region: DifferingRegion) -> bool:
    x, y, w, h = region.box
    edges = []
    for pixels in (content.before, content.after):
        grey = pixels[y : y + h, x : x + w].mean(axis=2)
        edges.append(cv2.magnitude(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1)).ravel())
    if min(each.std() for each in edges) < 1:
        return True
    return float(np.corrcoef(edges[0], edges[1])[0, 1]) > SAME_SHAPE


def _thing(
    kind: str,
    mask: Mask,
    content: Content,
    labs: Sequence[npt.NDArray[np.float32]],
    side: int,
    strength: float,
    itself: Mask | None = None,
) -> Thing:
    """The thing that covers a mask; `itself` are the pixels of it that surely are not ground."""
    own = mask if itself is None or not itself.any() else itself
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box = (int(columns[0]), int(rows[0]), int(columns[-1] - columns[0]) + 1, int(rows[-1] - rows[0]) + 1)
    colours = (_main(content.before[own]), _main(content.after[own]))
    return Thing(kind, mask, box, colours, np.median(labs[side][own], axis=0), strength)


def _name(colour: Colour) -> str:
    """ "something red": the colour is named only where it is strong, as the light of a photo tints all others."""
    spread, brightest = max(colour) - min(colour), max(colour)
    if spread > STRONG_COLOUR * brightest and spread > 60:
        return f"something {name_of(colour).removeprefix('greyish ')}"
    if brightest < 60:
        return "something dark"
    return "something light" if min(colour) > 165 else "something"


def _main(pixels: npt.NDArray[np.float32]) -> Colour:
    """The colour a person would name: of the three main ones the more frequent, the stronger counting more."""
    sample = np.ascontiguousarray(pixels[:: max(1, len(pixels) // 1000)], dtype=np.float32)
    if len(sample) < 4:
        red, green, blue = (int(level) for level in sample.mean(axis=0))
        return red, green, blue
    cv2.setRNGSeed(17)
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_MAX_ITER, 10, 1.0)
    clusters = min(3, len(sample))
    _, labels, centres = cv2.kmeans(sample, clusters, None, criteria, 1, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    weights = np.bincount(labels.ravel(), minlength=clusters) * (1 + 3 * np.ptp(centres, axis=1) / 255)
    best = centres[weights.argmax()]
    red, green, blue = (int(np.clip(level, 0, 255)) for level in best)
    return red, green, blue


def findings_of(things: Sequence[Thing], scale: float, size: tuple[int, int]) -> list[Finding]:
    """Findings in the image's own pixels; what went at one place and came at another moved."""
    left = list(things)
    found = []
    for gone in [thing for thing in things if thing.kind == "disappeared"]:
        candidates = [thing for thing in left if thing.kind == "appeared" and _could_be(gone, thing)]
        if candidates and gone in left:
            came = min(candidates, key=lambda thing: float(np.linalg.norm(thing.lab - gone.lab)))
            left = [thing for thing in left if thing is not gone and thing is not came]
            found.append(_moved(gone, came, scale, size))
    found += [_finding(thing, scale, size) for thing in left]
    return sorted(_said_once(found), key=lambda finding: -finding.pixels)


def _said_once(findings: Sequence[Finding]) -> list[Finding]:
    """Findings with the same words are one, at several places."""
    said: dict[str, Finding] = {}
    for finding in findings:
        known = said.get(finding.sentence)
        said[finding.sentence] = (
            finding
            if known is None
            else replace(
                known,
                boxes_before=(*known.boxes_before, *finding.boxes_before),
                boxes_after=(*known.boxes_after, *finding.boxes_after),
                pixels=known.pixels + finding.pixels,
            )
        )
    return list(said.values())


def _could_be(gone: Thing, came: Thing) -> bool:
    areas = sorted((int(gone.mask.sum()), int(came.mask.sum())))
    return bool(np.linalg.norm(gone.lab - came.lab) < SAME_COLOUR and areas[1] < 4 * areas[0])


def _full(box: Box, scale: float, size: tuple[int, int]) -> Box:
    x, y, width, height = (round(each / scale) for each in box)
    x, y = min(x, size[0] - 1), min(y, size[1] - 1)
    return x, y, max(1, min(width, size[0] - x)), max(1, min(height, size[1] - y))


def _moved(gone: Thing, came: Thing, scale: float, size: tuple[int, int]) -> Finding:
    old, new = _full(gone.box, scale, size), _full(came.box, scale, size)
    right = round(new[0] + new[2] / 2 - old[0] - old[2] / 2)
    down = round(new[1] + new[3] / 2 - old[1] - old[3] / 2)
    name = _name(came.colours[1])
    way = [f"{abs(right)} pixels to the {'right' if right > 0 else 'left'}"] if abs(right) > 0.02 * size[0] else []
    way += [f"{abs(down)} pixels {'down' if down > 0 else 'up'}"] if abs(down) > 0.02 * size[1] else []
    return Finding(
        kind="moved",
        sentence=f"{name} {place(old, size)} moved {' and '.join(way) or 'a little'}",
        boxes_before=(old,),
        boxes_after=(new,),
        pixels=round(int((gone.mask | came.mask).sum()) / scale**2),
        shift=(right, down),
    )


def _finding(thing: Thing, scale: float, size: tuple[int, int]) -> Finding:
    box = _full(thing.box, scale, size)
    where = place(box, size)
    old, new = _name(thing.colours[0]), _name(thing.colours[1])
    kind, colours = thing.kind, None
    if kind == "appeared":
        sentence = f"{new} appeared {where}"
    elif kind == "disappeared":
        sentence = f"{old} {where} disappeared"
    elif kind == "recoloured" and old != new and "something" not in (old, new):
        colours = (old.removeprefix("something "), new.removeprefix("something "))
        sentence = f"something {where} changed from {colours[0]} to {colours[1]}"
    else:
        kind, sentence = "replaced", f"the content {where} changed"
    return Finding(
        kind=kind,
        sentence=sentence,
        boxes_before=() if kind == "appeared" else (box,),
        boxes_after=() if kind == "disappeared" else (box,),
        pixels=round(int(thing.mask.sum()) / scale**2),
        colours=colours,
    )
