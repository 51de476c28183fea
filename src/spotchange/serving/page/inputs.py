"""Gradio inputs that hand files over undecoded, and never fetch one from elsewhere.

Methods are replaced on the instances: for a subclass the framework would write a stub file into this folder and look
for a front end of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr

_Component = TypeVar("_Component", gr.Image, gr.File)


def picture_input(label: str) -> gr.Image:
    """A picture to drop, choose or paste; events get its path, and our reader judges it."""
    component = gr.Image(
        label=label,
        elem_id=f"picture-{label.lower()}",
        sources=["upload", "clipboard"],
        type="filepath",
        height=280,
        min_width=260,
        buttons=[],
        placeholder=f"The picture {label.lower()}",
    )
    return _handing_over(component, _path)


def files_input(label: str, *, name: str, **options: Any) -> gr.File:
    """Files to drop or choose; events get the names they had on the sender's machine, and their paths."""
    component = gr.File(label=label, elem_id=name, height=150, min_width=220, **options)
    return _handing_over(component, _names_and_paths)


def _path(payload: Any) -> Path | None:
    return None if payload is None or payload.path is None else Path(payload.path)


def _names_and_paths(payload: Any) -> list[tuple[str, Path]]:
    if payload is None:
        return []
    files = getattr(payload, "root", [payload])
    return [(each.orig_name or Path(each.path).name, Path(each.path)) for each in files]


def _handing_over(component: _Component, preprocess: Callable[[Any], Any]) -> _Component:
    """Replace how a component reads files.

    The framework would also download a file if a request named one by its address; this server calls nobody.
    """
    changed: Any = component
    move = changed.async_move_resource_to_block_cache

    async def move_local(source: Any) -> Any:
        if "://" in str(source or ""):
            raise gr.Error("send the file itself, not its address", print_exception=False)
        return await move(source)

    changed.preprocess = preprocess
    changed.async_move_resource_to_block_cache = move_local
    return component
