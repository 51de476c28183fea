"""Gradio inputs that hand files over undecoded.

Methods are replaced on the instances: for a subclass the framework would write a stub file into this folder and look
for a front end of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr
from gradio.utils import get_upload_folder

from spotchange.serving.page.files import check_source

_Component = TypeVar("_Component", gr.Image, gr.File)


def image_input(label: str) -> gr.Image:
    """An image to drop, choose or paste; events get its path, and our reader judges it."""
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
    return None if payload is None or payload.path is None else _uploaded(payload.path)


def _names_and_paths(payload: Any) -> list[tuple[str, Path]]:
    if payload is None:
        return []
    files = getattr(payload, "root", [payload])
    return [(each.orig_name or Path(each.path).name, _uploaded(each.path)) for each in files]


def _uploaded(path: str) -> Path:
    """Once more where it is read: what calls itself a stream is passed on by the framework as it came."""
    check_source(path, [Path(get_upload_folder())])
    return Path(path)


def _handing_over(component: _Component, preprocess: Callable[[Any], Any]) -> _Component:
    """Replace how a component reads files."""
    changed: Any = component
    changed.preprocess = preprocess
    return component
