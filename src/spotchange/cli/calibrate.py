"""`spotchange models calibrate`: how a model's outputs become verdicts, fitted on validation pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spotchange.cli.output import print_json, print_line


def calibrate(
    model: Annotated[str, typer.Argument(help="A model folder; calibration.json is written into it.")],
    data: Annotated[Path, typer.Argument(help="A data set with change types; never the one that is reported on.")],
    split: Annotated[str, typer.Option(help="Split to fit on.")] = "val",
    check: Annotated[
        list[Path] | None, typer.Option(help="Also report on this metadata.jsonl, without fitting; may be repeated.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the fitted numbers as JSON.")] = False,
) -> None:
    """Fit change score, threshold, familiarity and word penalties on validation pairs."""
    from spotchange.answering import model_folder
    from spotchange.answering.build import model_answerer
    from spotchange.data import read_manifest, read_rows
    from spotchange.evaluation.calibrate import collect, fit, report, write

    runtime = model_answerer(model, device=device).runtime
    outputs = collect(runtime, list(read_rows(data, split)))
    calibration, familiarity = fit(outputs, fitted_on=f"{data.name}/{split}")
    reports = {f"{data.name}/{split}": report(outputs, calibration, familiarity)}
    for other in check or []:
        seen = collect(runtime, list(read_manifest(other)))
        reports[other.parent.name] = report(seen, calibration, familiarity)
    write(model_folder(model), calibration, familiarity, reports)
    if as_json:
        print_json(calibration.model_dump() | {"reports": reports})
        return
    print_line(f"temperature {calibration.temperature}, threshold {calibration.threshold}")
    for name, values in reports.items():
        print_line(
            f"{name}: change accuracy {values['change_accuracy']:.4f}, "
            f"calibration error {values['expected_calibration_error']:.4f}, "
            f"called unfamiliar {values['called_unfamiliar']:.4f}"
        )
