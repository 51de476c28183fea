"""The third tab: make a scene, change it, see whether the model finds it."""

from __future__ import annotations

import random
from collections.abc import Callable
from html import escape

import gradio as gr

from spotchange.errors import SpotchangeError
from spotchange.serving.api.problems import Problem
from spotchange.serving.page.answers import PageAnswers, answer_html, message_html, problem_html
from spotchange.serving.page.made_scenes import KINDS, MadeScene, make_scene

LARGEST_SEED = 2**31 - 1
HOW = (
    "The server draws a small world, changes one thing in it, and moves the camera and the lamps. "
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
    answer = gr.HTML(message_html("The first scene takes a little longer than the next ones."), elem_id="scene-answer")
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
            answer = answers.of_pictures(made.before, made.after)
        except Problem as problem:
            return problem_html(problem)
        except SpotchangeError as error:
            return message_html(error.message, kind="error")
        return answer_html(answer, extra=_judgement(made, answer.result.caption))

    return show


def _judgement(made: MadeScene, caption: str) -> str:
    right, reason = made.judge(caption)
    told = "The model is right." if right else f"The model is wrong: {reason}."
    return (
        f'<div class="sc-message sc-{"right" if right else "wrong"}"><p><b>{escape(told)}</b></p>'
        f"<p>What was done: {escape(made.truth)}.</p></div>"
    )
