"""Changes of a whole photo: mirrored, cropped, without colours, under a veil, in much more or less light, blurred."""

from __future__ import annotations

import numpy as np

from spotchange.comparison.photos.judging import PhotoVerdict
from spotchange.everyday.recognition.signs import Signs

LIGHT = ("tint", "brighter", "darker", "blur")  # kinds that cameras also do a little of by themselves
OF_LIGHT = (*LIGHT, "gray")  # that the trained model is sure of for nothing else; moving people look mirrored to it
_LIKE = 0.9  # correlation of small grey images that show the same
_MIRRORED, _RATHER = 0.75, 0.2  # correlation with the mirrored image, and by how much more than with the image
_NEARER = 0.14  # log of how much larger things are in a cropped image; a hand at the camera stays below 0.08
_COLOURFUL = 0.03  # mean difference between channels, of the range
_COLOURLESS = 0.15  # of the colours are left, at most, in a grey image
_VEILED, _VEIL = 0.8, 0.1  # of the contrast that is left under a veil, at most, and how much light it adds, at least
_BRIGHTER = 1.3  # times as bright, far more than what a camera corrects by itself
_SHARP = 0.5  # of the fine detail that is left in a blurred image
_DETAILED = 1.0  # levels of fine detail that an image must have had to lose it
_LEFT_OVER = 0.01  # of a photo in much more light that may differ because a channel was cut off
_SCATTERED = 0.03  # of a photo that may differ beside the change of the whole


# What the images themselves must show before a change of the whole that only the trained model sees is told.
_ELSEWHERE = 0.4  # correlation below which two images show other views
_LIGHTER, _DULLER, _PALER = 0.25, 0.2, 0.7  # log of brightness, of fine detail and of colours


def borne_out(kind: str, signs: Signs) -> bool:
    """Whether the images show what the trained model says of the whole; it knows no other way to see a strange view."""
    straight, mirrored, laid = signs["straight"], signs["mirrored"], signs["aligned"]
    shown = {
        "mirror": mirrored > max(straight, laid),
        "crop": signs["zoom"] >= 0.1 or max(straight, laid) < _ELSEWHERE,
        "brighter": signs["brighter"] >= _LIGHTER,
        "darker": signs["brighter"] <= -_LIGHTER,
        "blur": signs["detail"] <= -_DULLER,
        "gray": signs["colourful"] <= -_PALER,
        "tint": True,
    }
    return shown.get(kind, False)


def whole_change(signs: Signs, verdict: PhotoVerdict) -> str | None:
    """The kind of change, if all of the image changed and nothing in it; None otherwise."""
    straight, mirrored, laid = signs["straight"], signs["mirrored"], signs["aligned"]
    if mirrored >= _MIRRORED and mirrored > straight + _RATHER:
        return "mirror"
    scattered = verdict.mask.mean() <= _SCATTERED
    if not scattered and max(straight, laid) < _LIKE:
        return None
    if scattered and signs["zoom"] >= _NEARER:
        return "crop"
    if signs["colourful before"] > _COLOURFUL and signs["colourful"] < np.log(_COLOURLESS):
        return "gray"
    if verdict.mask.mean() > _LEFT_OVER:
        return None
    if laid >= _LIKE and signs["gain"] <= np.log(_VEILED) and signs["offset"] >= _VEIL:
        return "tint"
    if abs(signs["brighter"]) >= np.log(_BRIGHTER):
        return "brighter" if signs["brighter"] > 0 else "darker"
    if verdict.changed:
        return None
    return "blur" if signs["detail"] < np.log(_SHARP) and signs["detail before"] > np.log(_DETAILED) else None
