"""`spotchange leaderboard DIR`: one table of the systems trained below a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spotchange.cli.decoding import Meteor
from spotchange.cli.output import HTML, check_result_file, notes, print_json, show_tables, tables


def leaderboard(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="What `spotchange ablate leaderboard` wrote.")],
    html: Annotated[Path | None, typer.Option(help="Write a page with tables and charts here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    published: Annotated[
        str, typer.Option(metavar="NAME", help="Whose published rows stand beside: clevr-change, levir-cc.")
    ] = "clevr-change",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="The first N seeds of each system, for rows of equal numbers; all.")
    ] = None,
    meteor: Meteor = None,
) -> None:
    """Score every system's captions of the same held-out pairs: metrics, facts, intervals, paired tests, order."""
    from spotchange.evaluation.leaderboard import read_leaderboard
    from spotchange.reports.leaderboard import as_json as values
    from spotchange.reports.leaderboard import correlation_line, leaderboard_tables, write_page

    check_result_file("--html", html, begins=HTML)
    board = read_leaderboard(folders, published=published, meteor=meteor, seeds=seeds)
    for note in board.notes:
        notes().print("note:", note, markup=False, soft_wrap=True)
    if html is not None:
        write_page(board, html)
        notes().print(f"page: {html}", markup=False, soft_wrap=True)
    if as_json:
        print_json(values(board))
        return
    show_tables(leaderboard_tables(board))
    tables().print(correlation_line(board), markup=False, soft_wrap=True)
