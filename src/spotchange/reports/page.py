"""The page that reports share: a title, notes, tables, plots, and how the numbers came about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from string import Template

from spotchange.reports.tables import Table


def report_page(
    *,
    title: str,
    lead: str,
    notes: Sequence[str],
    tables: Iterable[Table],
    plots: Sequence[str],
    origin: str,
    examples: str = "",
) -> str:
    """The page as text, which needs no other file.

    Args:
        title: its first line.
        lead: the sentence below.
        notes: what a reader must know of the numbers, a line each.
        tables: in the order in which they are read.
        plots: cards with drawings.
        origin: how the numbers came about, as HTML.
        examples: pairs to look at, as HTML.
    """
    lines = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return Template(
        resources.files("spotchange.reports").joinpath("report.html").read_text(encoding="utf-8")
    ).substitute(
        title=escape(title),
        lead=escape(lead),
        notes=f'<div class="card"><ul class="notes">{lines}</ul></div>' if notes else "",
        tables="\n".join(map(_table, tables)),
        plots="\n".join(plots),
        examples=examples,
        origin=origin,
    )


def card(title: str, content: str) -> str:
    """A frame with a drawing."""
    return f'<div class="card"><h3>{escape(title)}</h3>{content}</div>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{_in_words(name)}</th>" for name in table.header)
    lines = "".join(
        f'<tr class="{line.look}">{"".join(f"<td>{escape(cell)}</td>" for cell in line.cells)}</tr>'
        for line in table.lines
    )
    return (
        f"<h2>{escape(table.title)}</h2>"
        f'<div class="card"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
    )


def _in_words(name: str) -> str:
    """A column's name that may be broken between its words, not within BLEU-4."""
    return " ".join(f"<span>{escape(word)}</span>" for word in name.split())
