"""How every verb speaks: data on stdout, everything else on stderr."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spotchange.errors import InputError, SpotchangeError
from spotchange.files import json_text
from spotchange.storage import check_writable, is_address

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

    from spotchange.reports.tables import Table

COMPILING = "compiling kernels, once on this machine; this takes a minute"
HTML = "<!doctype html"
LOOKS = {"system": "bold", "interval": "dim", "constant": "dim italic", "published": ""}
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def notes() -> Console:
    """The console for logs, warnings and progress; made anew so that tests may swap stderr."""
    return _plain_console(stderr=True)


def tables() -> Console:
    """The console for results that people read."""
    return _plain_console(stderr=False)


def _plain_console(*, stderr: bool) -> Console:
    """A console on which names of files cannot steer the terminal."""
    from rich.console import Console  # here: plain lines, which are most of what is said, need none

    class PlainConsole(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*(visible(each) if isinstance(each, str) else each for each in objects), **options)

    return PlainConsole(stderr=stderr, highlight=False)


def visible(text: str) -> str:
    """Control characters, which steer terminals, and bytes that are no text, written out."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def print_json(value: Any) -> None:
    """One JSON document, and nothing else, on stdout."""
    sys.stdout.write(json_text(value) + "\n")


def print_line(text: str) -> None:
    """One plain line on stdout, unwrapped and unstyled, so that scripts can read it."""
    sys.stdout.write(visible(text) + "\n")


def print_written(out: Path, as_json: bool, **facts: Any) -> None:
    """What was written where: its path, or that and the facts as JSON."""
    if as_json:
        print_json({"out": str(out), **facts})
    else:
        print_line(str(out))


def show_tables(shown: Iterable[Table]) -> None:
    """Tables of a report on stdout."""
    for table in shown:
        print_table(
            table.title, table.header, [line.cells for line in table.lines], [line.look for line in table.lines]
        )


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], looks: Sequence[str] | None = None
) -> None:
    """A table on stdout whose first column names its lines.

    One that is wider than the terminal goes on below, a block of columns at a time: no number is ever cut, and none
    stands on a line that the terminal wraps. Only names are folded.
    """
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table as Drawn

    console = tables()
    widest = console.width // 2 - 3  # of a name: room for one more column beside it
    widths = [min(widest, max(cell_len(text) for text in column)) for column in zip(header, *rows, strict=True)]
    first = True
    for columns in _blocks(widths, console.width):
        drawn = Drawn(title=title if first else None, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1))
        for place in columns:
            justify = "left" if place == 0 else "right"
            drawn.add_column(header[place], justify=justify, overflow="fold", width=widths[place])  # type: ignore[arg-type]
        for row, look in zip(rows, looks or ["system"] * len(rows), strict=True):
            drawn.add_row(*(row[place] for place in columns), style=LOOKS[look])
        console.print(drawn)
        first = False


def _blocks(widths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Columns that fit beside each other, the first one in every block."""
    edges, between = 2, 3  # what the table puts around all columns, and around each
    room = most - edges - widths[0] - between
    block, left = [0], room
    for place in range(1, len(widths)):
        if len(block) > 1 and widths[place] + between > left:
            yield block
            block, left = [0], room
        block.append(place)
        left -= widths[place] + between
    yield block


def check_result_file(option: str, path: Path | None, *, begins: str) -> None:
    """Refuse to write a result over a file that is no earlier result (those begin alike), or where nothing can be."""
    if path is None:
        return
    check_writable(path.parent, option)
    if not is_address(path) and path.is_dir():
        raise InputError(f"{option} {path} is a folder", hint="name a file")
    if not path.is_file():
        return
    with path.open("rb") as file:
        start = file.read(256).decode("utf-8", errors="replace").lstrip("\ufeff \r\n").lower()
    if start and not start.startswith(begins.lower()):
        raise InputError(f"{option} {path} holds something else", hint="choose another name, or remove the file")


def check_result_image(option: str, path: Path | None, *, inputs: Iterable[Path], suffixes: Sequence[str]) -> None:
    """Refuse to write an image over one that was given, or under a name of another kind."""
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{option} {path}: the name must end in {' or '.join(suffixes)}")
    if any(path.resolve() == each.resolve() for each in inputs):
        raise InputError(f"{option} {path} is one of the images given", hint="choose another name")


def progress(*columns: ProgressColumn) -> Progress:
    """A progress bar on stderr that leaves nothing behind in a pipe."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
