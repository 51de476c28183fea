"""A scene made on the spot, changed in a known way: what is true can be told, and what is said can be checked."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from PIL import Image

from spotchange.config.scenes import SceneSettings

WIDTH, HEIGHT = 480, 320
KINDS = {
    "an object's colour": "color",
    "an object's material": "texture",
    "a new object": "add",
    "an object gone": "drop",
    "an object moved": "move",
    "nothing (only camera and light)": "none",
}
_DRAWN_WITH = ("numba", "torch")  # of the extra `train`; a light server has no such tab
_ONE_AT_A_TIME = threading.Lock()  # drawing uses every core; two scenes at once would only be slower


def can_draw_scenes() -> bool:
    """Whether what scenes are drawn with is installed."""
    return all(find_spec(name) is not None for name in _DRAWN_WITH)


@dataclass(frozen=True, kw_only=True)
class MadeScene:
    """Two pictures, a true sentence about them, and the scene the checker reads."""

    before: Image.Image
    after: Image.Image
    truth: str
    scene: dict[str, Any]
    distractor: bool

    def judge(self, caption: str) -> tuple[bool, str]:
        """Whether a caption is right, and why not."""
        from spotchange.language import check

        verdict = check(caption, self.scene, distractor=self.distractor)
        return verdict.correct, verdict.reason


def make_scene(kind: str, seed: int) -> MadeScene:
    """Draw scene number 0 of a world of its own."""
    # Compiling the renderer takes a while the first time: only whoever opens this tab waits for it.
    from spotchange.language.writer import captions_text, write_captions
    from spotchange.scene import AFTER, BEFORE, SAME
    from spotchange.scenes.changes import scene_json
    from spotchange.scenes.pictures import draw_pictures
    from spotchange.scenes.sampler import World

    change = KINDS[kind]
    settings = SceneSettings() if change == "none" else SceneSettings.from_mapping({"changes": [change]}, source="page")
    with _ONE_AT_A_TIME:
        batch = World(settings, seed=seed).scenes(np.array([0]))
        images, _ = draw_pictures(
            batch, settings.look, seed=seed, width=WIDTH, height=HEIGHT, quality="fast", device="cpu"
        )
        ids = write_captions(batch, seed=seed, per_pair=1)
    distractor = change == "none"
    pixels = images.numpy()[0]  # (pictures, 3, height, width)
    return MadeScene(
        before=_picture(pixels[BEFORE]),
        after=_picture(pixels[SAME if distractor else AFTER]),
        truth=captions_text(ids[0, int(distractor)])[0],
        scene=scene_json(batch, 0, "made"),
        distractor=distractor,
    )


def _picture(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
