"""`spotchange ablate NAME`: train every cell of a table of experiments and print the table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spotchange.cli.device import Device
from spotchange.cli.output import notes, print_json, print_table, tables
from spotchange.errors import ModelError

if TYPE_CHECKING:
    from spotchange.config.ablation import Ablation
    from spotchange.training.ablation.table import CellResult


def ablate(
    recipe: Annotated[str, typer.Argument(metavar="NAME|RECIPE", help="A name (`spotchange config list`) or a file.")],
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: --set seeds=[1,2,3]")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for all runs; finished ones in it are kept.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Save and stop after so long; the same command goes on.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Cells and seeds trained side by side on the device, each in its own process.")
    ] = 1,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CELL", help="Run just these cells (repeat it).")
    ] = None,
    device: Device = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Run the papers' tables: cells that differ in named keys only, with the same budget and several seeds."""
    from spotchange.config.ablation import Ablation
    from spotchange.config.recipes import ABLATIONS, find_recipe
    from spotchange.training.stopping import StopRequest

    stop = StopRequest(minutes=minutes)
    ablation = Ablation.from_yaml(find_recipe(recipe, within=ABLATIONS), changes).only(only or [])
    folder = out or Path("out") / "ablations" / ablation.name

    from spotchange.training.ablation.parallel import run_side_by_side
    from spotchange.training.ablation.reuse import check_finished
    from spotchange.training.ablation.table import as_json, check_budget, collect, plan, run_jobs
    from spotchange.training.run import run_stage

    stop.listen()
    failed: dict[str, str] = {}
    planned, known, finished = plan(ablation, folder), 0, True
    check_budget(ablation, planned)
    check_finished(planned)
    while len(planned) > known:  # what the first seeds chose brings further runs
        known = len(planned)
        if jobs == 1:
            finished = run_jobs(planned, run_stage, stop=stop, device=device)
        else:
            outcomes = run_side_by_side(planned, run_stage, workers=jobs, stop=stop, device=device)
            failed = {name: each.error for name, each in outcomes.items() if each.error is not None}
            finished = all(each.finished for each in outcomes.values())
        planned = plan(ablation, folder)
    rows = collect(ablation, folder)
    if not finished:
        left = sum(job.summary is None for job in planned)
        notes().print(f"stopped with {left} of {len(planned)} runs left; the same command goes on", soft_wrap=True)
    if json:
        print_json(as_json(ablation, rows))
    else:
        _print_table(ablation, rows)
    if failed:
        raise ModelError("; ".join(f"{name}: {reason}" for name, reason in failed.items()))


def _print_table(ablation: Ablation, rows: list[CellResult]) -> None:
    from spotchange.training.ablation.table import columns_agree, comparisons
    from spotchange.training.log import readable

    counts = sorted({len(ablation.seeds_of(cell)) for cell in ablation.cells})
    seeds = " or ".join(map(str, counts)) + (" seed" if counts == [1] else " seeds")
    print_table(
        f"{ablation.name}: mean and spread over {seeds}",
        ["cell", *ablation.columns],
        [[row.cell, *(_cell(row, column) for column in ablation.columns)] for row in rows],
    )
    for (first, second), columns in comparisons(ablation, rows).items():
        for column, test in columns.items():
            difference, low, high = (
                f"{'+' * (each >= 0)}{readable(column, each)}" for each in (test.difference, test.low, test.high)
            )
            line = f"{column}: {second} against {first}: {difference} [{low}, {high}]"
            tables().print(f"{line}, p = {test.p_value:.3f}, {test.seeds} paired seeds", markup=False, soft_wrap=True)
    if ablation.correlate is not None:
        rho = columns_agree(rows, ablation.correlate)
        first, second = ablation.correlate
        shown = "not defined" if rho is None else f"{rho:.2f}"
        tables().print(f"rank correlation of {first} and {second} over the cells: {shown}", markup=False)


def _cell(row: CellResult, column: str) -> str:
    from spotchange.training.log import readable

    mean, spread = row.mean(column), row.spread(column)
    if mean is None:
        return "-"
    return readable(column, mean) if spread is None else f"{readable(column, mean)} ± {readable(column, spread)}"
