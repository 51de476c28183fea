"""The page: three tabs over the same queue of pairs that the API uses. Nothing on it comes from another host."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from html import escape
from importlib import resources
from typing import Any

from fastapi import FastAPI

from spotchange.reports.pair_view import view_styles
from spotchange.serving.engine.queue import Batcher
from spotchange.serving.page.answers import PageAnswers
from spotchange.serving.page.sweeping import KEPT_SECONDS
from spotchange.serving.settings import ServerSettings

TITLE = "spotchange: what changed between two pictures?"
PAIRS_AT_A_TIME = 8  # of all pages together; the others wait their turn
SYSTEM_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "sans-serif")
MONO_FONTS = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")

# Readers of the screen are told when an answer appears; the language is for their voice.
_ON_LOAD = """() => {
  document.documentElement.lang = "en";
  for (const id of ["answer", "batch-answer", "scene-answer"]) {
    const region = document.getElementById(id);
    if (region) { region.setAttribute("aria-live", "polite"); region.setAttribute("role", "region"); }
  }
}"""


def make_page(model: str, batcher: Batcher, settings: ServerSettings) -> tuple[FastAPI, Any]:
    """The page as an application of its own, and the framework's application inside it."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    import gradio as gr

    from spotchange.serving.page.batch import batch_tab
    from spotchange.serving.page.files import confine
    from spotchange.serving.page.pair import examples_folder, pair_tab
    from spotchange.serving.page.scene_tab import can_draw_scenes, scene_tab

    answers = PageAnswers(batcher, settings)
    with gr.Blocks(title=TITLE, analytics_enabled=False, delete_cache=(60, KEPT_SECONDS)) as blocks:
        gr.HTML('<header class="sc-head"><h1>spotchange</h1><p>Two pictures in, what changed out.</p></header>')
        with gr.Tabs():
            with gr.Tab("Two pictures"):
                pair_tab(answers)
            with gr.Tab("Many pairs"):
                batch_tab(answers)
            if can_draw_scenes():
                with gr.Tab("Test it"):
                    scene_tab(answers)
        gr.HTML(f'<footer class="sc-foot">Model: <b>{escape(model)}</b>. Pictures stay on this server.</footer>')
    blocks.queue(default_concurrency_limit=PAIRS_AT_A_TIME, max_size=settings.places, api_open=False)
    page = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    gr.mount_gradio_app(
        page,
        blocks,
        path="/",
        theme=_theme(),
        css=view_styles() + resources.files("spotchange.serving").joinpath("page.css").read_text(encoding="utf-8"),
        js=_ON_LOAD,
        footer_links=[],
        run_history=False,
        show_error=False,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        max_file_size=settings.max_request_bytes,
        allowed_paths=[str(examples_folder())],
        auth=_key_check(settings.api_key),
        auth_message="Any name; the password is the API key." if settings.api_key else None,
    )
    confine(blocks, examples=examples_folder())
    return page, page.routes[-1].app  # type: ignore[attr-defined]


def _theme() -> Any:
    import gradio as gr

    return gr.themes.Base(
        primary_hue="blue", neutral_hue="slate", radius_size="lg", font=SYSTEM_FONTS, font_mono=MONO_FONTS
    ).set(
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover_dark="*primary_600",
        button_primary_text_color="white",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
    )


def _key_check(key: str | None) -> Callable[[str, str], bool] | None:
    """The page asks for the same key as the API; any user name will do."""
    if key is None:
        return None
    return lambda _, password: hmac.compare_digest(password.encode(), key.encode())
