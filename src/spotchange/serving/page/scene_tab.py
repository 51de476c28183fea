"""The third tab: make a scene, change it in a known way, see whether the model finds it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from typing import Any

import gradio as gr
import numpy as np
from PIL import Image

from spotchange.config.scenes import SceneSettings
from spotchange.errors import SpotchangeError
from spotchange.serving.api.problems import Problem
from spotchange.serving.page.answers import PageAnswers, answer_html, message_html, problem_html

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
LARGEST_SEED = 2**31 - 1
HOW = (
    "The server draws a scene, changes one thing in it, and moves the camera and the lamps. "
    "It knows what it did, so it can tell whether the model is right."
)


def scene_tab(answers: PageAnswers) -> None:
    """Build the tab."""
    gr.HTML(f'<p class="sc-small">{escape(HOW)}</p>')
    with gr.Row():
        kind = gr.Radio(list(KINDS), value=next(iter(KINDS)), label="Change", elem_id="kind", scale=3, min_width=320)
        seed = gr.Number(
            value=1, precision=0, minimum=0, maximum=LARGEST_SEED, label="Scene number", elem_id="seed", min_width=200
        )
    with gr.Row(elem_classes="sc-actions"):
        make = gr.Button("Make it", variant="primary", elem_id="make", scale=2, min_width=160)
        surprise = gr.Button("Another scene", elem_id="surprise", min_width=140)
    answer = gr.HTML(
        message_html("The first scene can take a minute: the renderer is compiled once."), elem_id="scene-answer"
    )
    show = _make_and_ask(answers)
    make.click(show, inputs=[kind, seed], outputs=answer, api_visibility="private", concurrency_limit=2)
    surprise.click(_any_seed, outputs=seed, api_visibility="private").then(
        show, inputs=[kind, seed], outputs=answer, api_visibility="private", concurrency_limit=2
    )


def _any_seed() -> int:
    return random.randrange(LARGEST_SEED)


def _make_and_ask(answers: PageAnswers) -> Callable[[str, float | None], str]:
    def show(kind: str, seed: float | None) -> str:
        if kind not in KINDS or seed is None or not 0 <= seed <= LARGEST_SEED:
            return message_html(f"the scene number is a whole number from 0 to {LARGEST_SEED:,}", kind="error")
        try:
            made = make_scene(kind, int(seed))
            answer = answers.of_images(made.before, made.after)
        except Problem as problem:
            return problem_html(problem)
        except SpotchangeError as error:
            return message_html(error.message, kind="error")
        return answer_html(answer, extra=_judgement(made, answer.result.caption))

    return show


def _judgement(made: PosedScene, caption: str) -> str:
    right, reason = made.verify(caption)
    told = "The model is right." if right else f"The model is wrong: {reason}."
    return (
        f'<div class="sc-message sc-{"right" if right else "wrong"}"><p><b>{escape(told)}</b></p>'
        f"<p>What was done: {escape(made.truth)}.</p></div>"
    )


def can_draw_scenes() -> bool:
    """Whether what scenes are drawn with is installed."""
    return all(find_spec(name) is not None for name in _DRAWN_WITH)


@dataclass(frozen=True, kw_only=True)
class PosedScene:
    """Two images, a true sentence about them, and the scene the checker reads."""

    before: Image.Image
    after: Image.Image
    truth: str
    scene: dict[str, Any]
    distractor: bool

    def verify(self, caption: str) -> tuple[bool, str]:
        """Whether a caption is right, and why not."""
        from spotchange.language import check

        verdict = check(caption, self.scene, distractor=self.distractor)
        return verdict.correct, verdict.reason


def make_scene(kind: str, seed: int) -> PosedScene:
    """Draw scene number 0 of a world of its own."""
    # Compiling the renderer takes a while the first time: only whoever opens this tab waits for it.
    from spotchange.language.writer import captions_text, write_captions
    from spotchange.scene import AFTER, BEFORE, SAME
    from spotchange.scenes.changes import scene_json
    from spotchange.scenes.sampler import World
    from spotchange.scenes.views import draw_views

    change = KINDS[kind]
    settings = SceneSettings() if change == "none" else SceneSettings.from_mapping({"changes": [change]}, source="page")
    with _ONE_AT_A_TIME:
        batch = World(settings, seed=seed).scenes(np.array([0]))
        images, _ = draw_views(
            batch, settings.look, seed=seed, width=WIDTH, height=HEIGHT, quality="fast", device="cpu"
        )
        ids = write_captions(batch, seed=seed, per_pair=1)
    distractor = change == "none"
    pixels = images.numpy()[0]  # (images, 3, height, width)
    return PosedScene(
        before=_image(pixels[BEFORE]),
        after=_image(pixels[SAME if distractor else AFTER]),
        truth=captions_text(ids[0, int(distractor)])[0],
        scene=scene_json(batch, 0, "made"),
        distractor=distractor,
    )


def _image(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
