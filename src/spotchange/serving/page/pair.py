"""The first tab: two images, what changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import gradio as gr

from spotchange.serving.api.problems import Problem
from spotchange.serving.page.answers import PageAnswers, answer_html, message_html, problem_html
from spotchange.serving.page.inputs import image_input

NOTHING_YET = "Drop, choose or paste a picture on each side, or take an example."


def examples_folder() -> Path:
    """Where the pairs that come with the package lie."""
    return Path(str(resources.files("spotchange"))) / "assets" / "examples"


def example_pairs() -> list[tuple[str, Path, Path]]:
    """The pairs that come with the package: `NAME_before.*` beside `NAME_after.*`."""
    found = []
    for before in sorted(examples_folder().glob("*_before.*")):
        name = before.stem.removesuffix("_before")
        after = before.with_name(f"{name}_after{before.suffix}")
        if after.is_file():
            found.append((name.partition("_")[2].replace("_", " ") or name, before, after))
    return found


def pair_tab(answers: PageAnswers) -> None:
    """Build the tab."""
    with gr.Row(equal_height=True):
        before, after = image_input("Before"), image_input("After")
    with gr.Row(elem_classes="sc-actions"):
        ask = gr.Button("What changed?", variant="primary", elem_id="ask", scale=2, min_width=165)
        swap = gr.Button("Swap", elem_id="swap", min_width=70)
        clear = gr.Button("Clear", elem_id="clear", min_width=70)
    examples = example_pairs()
    if examples:
        gr.HTML('<p class="sc-small sc-label">Examples</p>')
        with gr.Row(elem_classes="sc-examples"):
            for name, first, second in examples:
                button = gr.Button(name, icon=first, size="sm", min_width=150, elem_classes="sc-example")
                button.click(partial(_example, first, second), outputs=[before, after], **_private())
    answer = gr.HTML(message_html(NOTHING_YET), elem_id="answer")
    look = _look(answers)
    gr.on(
        [ask.click, before.change, after.change],
        look,
        inputs=[before, after],
        outputs=answer,
        trigger_mode="always_last",
        **_private(),
    )
    swap.click(lambda first, second: (second, first), inputs=[before, after], outputs=[before, after], **_private())
    clear.click(lambda: (None, None), outputs=[before, after], **_private())


def _look(answers: PageAnswers) -> Callable[[Path | None, Path | None], str]:
    def look(before: Path | None, after: Path | None) -> str:
        if before is None and after is None:
            return message_html(NOTHING_YET)
        if before is None or after is None:
            return message_html(f"Now the picture {'before' if before is None else 'after'}.")
        try:
            return answer_html(answers.of_files(before.read_bytes(), after.read_bytes()))
        except Problem as problem:
            return problem_html(problem)
        except OSError:
            return message_html("these pictures have expired here; choose them again", kind="error")

    return look


def _example(before: Path, after: Path) -> tuple[str, str]:
    return str(before), str(after)


def _private() -> dict[str, Any]:
    """Events are for the page; the API has its own address."""
    return {"api_visibility": "private", "show_progress": "minimal"}
