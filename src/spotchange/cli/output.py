"""How every verb speaks: data on stdout, everything else on stderr."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from spotchange.errors import SpotchangeError
from spotchange.files import json_text

if TYPE_CHECKING:
    from spotchange.reports.tables import Table

WIDEST = 1000
LOOKS = {"system": "bold", "interval": "dim", "constant": "dim italic", "published": ""}
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class _PlainConsole(Console):
    """A console on which names of files cannot steer the terminal."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(visible(each) if isinstance(each, str) else each for each in objects), **options)


def notes() -> Console:
    """The console for logs, warnings and progress; made anew so that tests may swap stderr."""
    return _PlainConsole(stderr=True, highlight=False)


def tables() -> Console:
    """The console for results that people read."""
    return _PlainConsole(highlight=False)


def visible(text: str) -> str:
    """Control characters, which steer terminals, and bytes that are no text, written out."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def print_json(value: Any) -> None:
    """One JSON document, and nothing else, on stdout."""
    sys.stdout.write(json_text(value) + "\n")


def print_line(text: str) -> None:
    """One plain line on stdout, unwrapped and unstyled, so that scripts can read it."""
    sys.stdout.write(visible(text) + "\n")


def show_tables(shown: Iterable[Table]) -> None:
    """Tables of a report on stdout, as wide as they are."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Drawn

    console = tables()
    wide = console.options.update(max_width=WIDEST)
    for table in shown:
        drawn = Drawn(title=table.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1))
        for place, name in enumerate(table.header):
            drawn.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
        for line in table.lines:
            drawn.add_row(*line.cells, style=LOOKS[line.look])
        # A number cut off would be worse than a line that the terminal wraps.
        console.width = max(console.width, console.measure(drawn, options=wide).maximum)
        console.print(drawn)


def progress(*columns: ProgressColumn) -> Progress:
    """A progress bar on stderr that leaves nothing behind in a pipe."""
    console = notes()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def print_error(error: SpotchangeError) -> None:
    """One line that says what is wrong, and a hint where there is one."""
    console = notes()
    console.print("error:", style="bold red", end=" ")
    console.print(_one_line(error.message), markup=False, soft_wrap=True)
    if error.hint:
        console.print("hint:", style="bold", end=" ")
        console.print(_one_line(error.hint), markup=False, soft_wrap=True)


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))
