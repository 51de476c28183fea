"""`spotchange train RECIPE`: run one stage of training, or go on with it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from spotchange.cli.device import Device
from spotchange.cli.output import COMPILING, notes, print_json, print_line
from spotchange.locks import one_writer


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe's name (`spotchange config list`) or file.")],
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: --set stage.steps=100")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for checkpoints and logs.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on exactly where OUT/last stands.")] = False,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Save and stop this command after so long; --resume goes on.")
    ] = None,
    until: Annotated[
        int | None, typer.Option(min=1, help="Save and stop this command at this step; --resume goes on.")
    ] = None,
    device: Device = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Train a model. Several GPUs: torchrun --nproc-per-node 8 -m spotchange train RECIPE."""
    from spotchange.config.recipes import find_recipe
    from spotchange.config.training import Recipe
    from spotchange.training.stopping import StopRequest

    stop = StopRequest(minutes=minutes, at_step=until)  # minutes count from here, imports and compilation included
    settings = Recipe.from_yaml(find_recipe(recipe), changes)
    folder = out or Path(settings.out or Path("out") / settings.name)

    from spotchange.kernels.compile import announce_compilation
    from spotchange.training.run import run_stage

    stop.listen()
    with ExitStack() as stack:
        if os.environ.get("RANK", "0") == "0":  # of several processes of one run, the first speaks for all
            stack.enter_context(one_writer(folder))
            stack.enter_context(announce_compilation(lambda: notes().print(COMPILING, style="dim")))
        summary = run_stage(settings, out=folder, resume=resume, stop=stop, device=device)
    if summary is None:  # another process of the same run speaks
        return
    _tell(summary, folder, as_json=json)
    if stop.heard is not None:
        raise typer.Exit(128 + stop.heard)  # as shells count an end by a signal: 130 for Ctrl-C


def _tell(summary: dict[str, Any], folder: Path, *, as_json: bool) -> None:
    from spotchange.models.weights.description import BEST, LAST
    from spotchange.training.log import readable

    if as_json:
        print_json(summary)
        return
    if summary["best"] is not None:
        best = readable(summary["metric"], summary["best"])
        print_line(f"{folder / BEST}  {summary['metric']} {best} at step {summary['best_step']}")
    else:
        print_line(f"{folder / LAST}  step {summary['step']} of {summary['steps']}")
    if not summary["finished"]:
        notes().print(f"stopped at step {summary['step']} of {summary['steps']}; --resume goes on", soft_wrap=True)
