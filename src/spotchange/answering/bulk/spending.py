"""What asking a model took in other processes: it travels with the lines of results, and is counted on arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from spotchange.answering.build import LoadOptions, build_answerer
from spotchange.answering.interface import ASKED, Usage
from spotchange.cluster import Line

SPENT = "spent"


def shared_usage(model: str, options: LoadOptions, *, far: bool) -> tuple[str, Usage | None]:
    """What a model is called, and where its spending is counted; None where nothing is asked.

    A model that workers ask (`far`) is checked here first, and here it is said where images are sent: what workers
    say is read by nobody.
    """
    kind, _, where = model.partition(":")
    if kind not in ASKED:
        return model, None
    from spotchange.answering.vlm.settings import read_options
    from spotchange.models.weights.description import called, resolved

    usage = Usage(prices=read_options(options.model_options).prices)
    if kind == "openai" and far:
        build_answerer(model, options)
    if kind == "openai":
        return where.rpartition("#")[2], usage
    folder = Path(resolved(where))
    return called(folder) if folder.is_dir() else where, usage


def with_spending(usage: Usage | None, lines: Iterable[Line]) -> Iterator[Line]:
    """The lines, with what was spent since the one before."""
    told = None if usage is None else replace(usage)
    for line in lines:
        if usage is not None and told is not None and usage != told:
            line = line | {SPENT: usage.since(told)}
            told = replace(usage)
        yield line


def counted(usage: Usage | None) -> Callable[[list[Any], list[Line]], list[Line]]:
    """For `lines_of`: gives lines as they are kept; what they tell of is added to `usage`."""

    def count(_: list[Any], lines: list[Line]) -> list[Line]:
        for line in lines:
            spent = line.pop(SPENT, {})
            if usage is not None:
                usage.add(spent)
        return lines

    return count
