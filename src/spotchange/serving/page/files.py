"""Which files the page's framework may touch: what was uploaded or made here, and the bundled examples.

A request may hand any component, even a number, the path of a file. The framework checks such paths only once it
counts as launched, which a mounted page never does; so it is told that it is, and every component is given a check of
our own, which does not depend on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

ADDRESS = "send the file itself, not its address"
FOREIGN = "this file was not uploaded here"


def confine(blocks: gr.Blocks, *, examples: Path) -> None:
    """Let no component read or serve a file from elsewhere."""
    from gradio.utils import get_upload_folder

    blocks.has_launched = True
    folders = (Path(get_upload_folder()), examples)
    for block in blocks.blocks.values():
        _confine_block(block, folders)


def check_source(source: object, folders: Sequence[Path]) -> None:
    """Refuse addresses, and files that lie in none of the folders once every link is followed."""
    if source is None:
        return
    text = str(source)
    if "://" in text:
        raise gr.Error(ADDRESS, print_exception=False)
    try:
        place = Path(text).resolve()
        inside = place.is_file() and any(place.is_relative_to(folder.resolve()) for folder in folders)
    except (OSError, ValueError):  # a path no file can have
        inside = False
    if not inside:
        raise gr.Error(FOREIGN, print_exception=False)


def _confine_block(block: Any, folders: Sequence[Path]) -> None:
    """Replace on the instance: for a subclass the framework would look for a front end of its own."""
    move, move_later = block.move_resource_to_block_cache, block.async_move_resource_to_block_cache

    def move_checked(source: Any) -> Any:
        check_source(source, folders)
        return move(source)

    async def move_checked_later(source: Any) -> Any:
        check_source(source, folders)
        return await move_later(source)

    block.move_resource_to_block_cache = move_checked
    block.async_move_resource_to_block_cache = move_checked_later
