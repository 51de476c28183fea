"""The leaderboard for people: tables for the terminal, and a page with charts."""

from __future__ import annotations

import os
from html import escape
from typing import Any

from spotchange.charts import grouped_bars
from spotchange.evaluation.leaderboard import FACTS, JUDGED_BY, METRICS, NONE, Entry, Leaderboard, Scored
from spotchange.evaluation.published import CAVEAT
from spotchange.files import write_text
from spotchange.metrics import adjusted
from spotchange.reports.page import card, report_page
from spotchange.reports.tables import Line, Table, percent

COLUMNS = (*METRICS, FACTS, NONE)
AXIS = f"{JUDGED_BY}, in percent"
CHARTED = 12  # systems a chart shows; the table shows all


def leaderboard_tables(board: Leaderboard) -> list[Table]:
    """Scores; against the best; by kind; size and speed; beside the published."""
    tables = [_scores(board), _against_best(board)]
    if board.kinds:
        tables += [_by_kind(board, JUDGED_BY)]
        if any(FACTS in run.scores for entry in board.entries for run in entry.runs):
            tables += [_by_kind(board, FACTS)]
    return [*tables, _costs(board), _published(board)]


def _scores(board: Leaderboard) -> Table:
    names = [name for name in COLUMNS if any(name in entry.runs[0].scores for entry in board.entries)]
    lines = []
    for entry in board.entries:
        seeds = f"{len(entry.runs)}{'' if entry.full else ', short'}"
        lines.append(Line([entry.title, seeds, *(_with_spread(entry, name) for name in names)]))
        ranges = [entry.intervals.get(name) for name in names]
        shown = ["" if each is None else f"±{percent((each[1] - each[0]) / 2)}" for each in ranges]
        lines.append(Line(["  95 % interval", "", *shown], "interval"))
    floor = [percent(board.constant.scores.get(name)) for name in names]
    lines.append(Line(["constant caption", "", *floor], "constant"))
    return Table(f"{_title(board)}, {board.pairs:,} held-out pairs, in percent", ["", "seeds", *names], lines)


def _title(board: Leaderboard) -> str:
    name = board.name.removeprefix("leaderboard").removeprefix("-")  # as the ablations call their folders
    return f"Leaderboard: {name}" if name else "Leaderboard"


def _with_spread(entry: Entry, name: str) -> str:
    mean, spread = entry.mean(name), entry.spread(name)
    return percent(mean) if spread is None else f"{percent(mean)} ± {percent(spread)}"


def _against_best(board: Leaderboard) -> Table:
    """Paired tests on the same pairs, over common seeds."""
    best, *others = [entry for entry in board.entries if entry.full]
    header = [f"minus {best.title}"]
    columns = [[entry.title for entry in others]]
    for name in (JUDGED_BY, FACTS):
        tests = [(entry.against_best or {}).get(name) for entry in others]
        if not any(tests):  # nobody knows which sentences are true
            continue
        together = iter(adjusted([each.p_value for each in tests if each is not None]))
        header += [name, "95 % interval", "p", "p of all"]
        columns += [
            ["" if each is None else f"{100 * each.difference:+.1f}" for each in tests],
            ["" if each is None else f"{100 * each.low:+.1f} to {100 * each.high:+.1f}" for each in tests],
            ["" if each is None else f"{each.p_value:.3f}" for each in tests],
            ["" if each is None else f"{next(together):.3f}" for each in tests],
        ]
    lines = [Line(list(cells)) for cells in zip(*columns, strict=True)]
    title = "Against the best (paired bootstrap interval, randomisation test; p of all: Holm's, for so many tests)"
    return Table(title, header, lines)


def _by_kind(board: Leaderboard, name: str) -> Table:
    lines = [
        Line([entry.title, *(percent(entry.by_kind(kind, name)) for kind in board.kinds)]) for entry in board.entries
    ]
    floor = [percent(board.constant.by_kind.get(kind, {}).get(name)) for kind in board.kinds]
    lines.append(Line(["constant caption", *floor], "constant"))
    own = ", each kind an evaluation of its own" if name == JUDGED_BY else ""
    return Table(f"{name} by kind of change{own}, in percent", ["", *board.kinds], lines)


def _costs(board: Leaderboard) -> Table:
    lines = []
    for entry in board.entries:
        run = entry.run
        training = entry.speeds.get("training")
        shared = "" if run.pairs_per_second is None else f"({run.pairs_per_second:,.0f})"
        lines.append(
            Line(
                [
                    entry.title,
                    f"{run.parameters / 1e6:.1f}",
                    f"{run.rate:g}",
                    shared if training is None else f"{training:,.0f}",
                    "" if "captioning" not in entry.speeds else f"{entry.speeds['captioning']:,.0f}",
                    "" if run.minutes is None else f"{run.minutes:.1f}",
                    "" if run.pairs is None else f"{run.pairs:,}",
                ]
            )
        )
    header = [
        "",
        "parameters (M)",
        "learning rate",
        "training pairs/s",
        "captioning pairs/s",
        "minutes of a run",
        "pairs of a run",
    ]
    return Table("Size, rate and speed", header, lines)


def _published(board: Leaderboard) -> Table:
    rows = [
        (entry.title, percent(entry.mean(JUDGED_BY)), entry.published) for entry in board.entries if entry.published
    ]
    rows += [(row.system, "", row) for row in board.only_published]
    lines = []
    for title, ours, row in rows:
        printed = [row.scores.get(name) for name in METRICS]
        lines.append(Line([title, ours, *("" if each is None else f"{each:.1f}" for each in printed)], "published"))
    title = "Beside the published numbers (other images, other training)"
    return Table(title, ["", f"ours, {JUDGED_BY}", *METRICS], lines)


def correlation_line(board: Leaderboard) -> str:
    """One sentence about the order."""
    if board.rank_correlation is None:
        return "rank correlation with the published order: fewer than three systems of known code trained in full"
    return (
        f"rank correlation (Spearman) of our {JUDGED_BY} with the published, over the {len(board.ranked)} systems "
        f"whose code was known and that trained in full: {board.rank_correlation:.2f}, p {board.rank_p_value:.2f} "
        "(two-sided, by orders drawn by chance)"
    )


def as_json(board: Leaderboard) -> dict[str, Any]:
    """The whole of it as plain values; scores as fractions."""

    def scored(run: Scored) -> dict[str, Any]:
        return {"seed": run.run.seed, "scores": run.scores, "by_kind": run.by_kind}

    return {
        "name": board.name,
        "pairs": board.pairs,
        "systems": [
            {
                "title": entry.title,
                "system": entry.run.system,
                "faithful": entry.faithful,
                "full": entry.full,
                "learning_rate": entry.run.rate,
                "parameters": entry.run.parameters,
                "pairs_trained": entry.run.pairs,
                "speeds": entry.speeds,
                "mean": {name: entry.mean(name) for name in COLUMNS},
                "spread": {name: entry.spread(name) for name in COLUMNS},
                "intervals": {name: entry.intervals[name] for name in COLUMNS if name in entry.intervals},
                "against_best": entry.against_best
                and {n: vars(entry.against_best[n]) for n in (*METRICS, FACTS) if n in entry.against_best},
                "published": entry.published and entry.published.scores,
                "runs": [scored(run) for run in entry.runs],
            }
            for entry in board.entries
        ],
        "constant": {"caption": board.constant_caption, **scored(board.constant)},
        "rank_correlation": board.rank_correlation,
        "rank_p_value": board.rank_p_value,
        "ranked": board.ranked,
        "notes": board.notes,
    }


def write_page(board: Leaderboard, path: str | os.PathLike[str]) -> None:
    """Write the page, all or nothing."""
    page = report_page(
        title=_title(board),
        lead=f"{board.pairs:,} held-out pairs. Floor: “{board.constant_caption}” for every pair.",
        notes=[*board.notes, correlation_line(board)],
        tables=leaderboard_tables(board),
        plots=_charts(board),
        origin=f"<p>{escape(CAVEAT[0].upper() + CAVEAT[1:])}.</p>",
    )
    write_text(path, page)


def _charts(board: Leaderboard) -> list[str]:
    shown = board.entries[:CHARTED]
    titles = [entry.title for entry in shown]
    cards = [
        card(
            f"{JUDGED_BY}, ours and published"
            + ("" if len(shown) == len(board.entries) else f": the first {len(shown)} of {len(board.entries)}"),
            grouped_bars(
                titles,
                {
                    "ours": [100 * (entry.mean(JUDGED_BY) or 0.0) for entry in shown],
                    "published": [
                        None if entry.published is None else entry.published.scores[JUDGED_BY] for entry in shown
                    ],
                },
                unit=AXIS,
            ),
        )
    ]
    if board.kinds:
        best = board.entries[: min(3, len(board.entries))]
        series = {
            entry.title: [100 * (entry.by_kind(kind, JUDGED_BY) or 0.0) for kind in board.kinds] for entry in best
        }
        cards.append(card(f"{JUDGED_BY} by kind, the best", grouped_bars(board.kinds, series, unit=AXIS)))
    return cards
