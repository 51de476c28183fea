"""`spotchange models calibrate`: how a model's outputs become verdicts, fitted on validation pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spotchange.cli.device import Device
from spotchange.cli.model_options import ModelOptions, parse_options
from spotchange.cli.output import check_result_file, notes, print_json, print_line
from spotchange.errors import InputError

if TYPE_CHECKING:
    from spotchange.answering.calibration import Calibration
    from spotchange.answering.runtimes.interface import ModelRuntime


def calibrate(
    model: Annotated[
        str, typer.Argument(help="A model folder, into which calibration.json is written; or vlm:... or openai:...")
    ],
    data: Annotated[Path, typer.Argument(help="A data set with change types; never the one that is reported on.")],
    split: Annotated[str, typer.Option(help="Split to fit on.")] = "val",
    check: Annotated[
        list[Path] | None, typer.Option(help="Also report on this metadata.jsonl, without fitting; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="For vlm: and openai:, where to write; --model-option calibration=FILE reads it."),
    ] = None,
    model_option: ModelOptions = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the fitted numbers as JSON.")] = False,
) -> None:
    """Fit change score, threshold, familiarity and word penalties on validation pairs.

    Of a vision-language model, the change score from the probability of yes, and its threshold; of a model of everyday
    images, change score and threshold.
    """
    from spotchange.answering.interface import ASKED

    if model.partition(":")[0] in ASKED:
        _calibrate_asked(model, data, split, check or [], out, parse_options(model_option), device, as_json)
        return
    if out is not None or model_option:
        raise InputError("--out and --model-option are for vlm: and openai:", hint="a model folder keeps its own")
    from spotchange.answering.build import model_answerer, own_folder
    from spotchange.data import read_manifest, read_rows
    from spotchange.evaluation.calibrate import collect, fit, report, write
    from spotchange.models.weights.bundled import knows_everyday

    folder = own_folder(model, hint=f"calibrate a copy: spotchange models export {model} --out FOLDER")
    runtime = model_answerer(model, device=device).runtime
    if knows_everyday(folder):
        _calibrate_everyday(runtime, folder, data, split, check or [], as_json)
        return
    outputs = collect(runtime, list(read_rows(data, split)))
    calibration, familiarity = fit(outputs, fitted_on=f"{data.name}/{split}")
    reports = {f"{data.name}/{split}": report(outputs, calibration, familiarity)}
    for other in check or []:
        seen = collect(runtime, list(read_manifest(other)))
        reports[other.parent.name] = report(seen, calibration, familiarity)
    write(folder, calibration, familiarity, reports)
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


def _calibrate_everyday(
    runtime: ModelRuntime, folder: Path, data: Path, split: str, check: list[Path], as_json: bool
) -> None:
    from spotchange.answering.calibration import Calibration
    from spotchange.data import read_manifest, read_rows
    from spotchange.evaluation.calibrate import collect_scores, fit_scores, report_scores, write_scores

    logits, changed = collect_scores(runtime, list(read_rows(data, split)))
    fitted = fit_scores(logits, changed, fitted_on=f"{data.name}/{split}")
    # What was fitted about names stays.
    known = fitted.model_dump(include={"temperature", "bias", "threshold", "fitted_on"})
    calibration = Calibration.read(folder).model_copy(update=known)
    reports = {fitted.fitted_on: report_scores(logits, changed, calibration)}
    for other in check:
        reports[other.parent.name] = report_scores(*collect_scores(runtime, list(read_manifest(other))), calibration)
    write_scores(folder, calibration, reports)
    _tell_scores(calibration, reports, known | {"reports": reports}, as_json)


def _calibrate_asked(
    model: str,
    data: Path,
    split: str,
    check: list[Path],
    out: Path | None,
    options: dict[str, str],
    device: str,
    as_json: bool,
) -> None:
    from spotchange.answering.vlm.build import build_vlm
    from spotchange.data import read_manifest, read_rows
    from spotchange.evaluation.calibrate import collect_asked, fit_scores, report_scores
    from spotchange.files import json_text, write_text

    if out is None:
        raise InputError("--out is needed: a model that is asked has no folder of ours", hint="--out calibration.json")
    check_result_file("--out", out, begins='{"temperature"')
    if "calibration" in options:
        raise InputError("--model-option calibration=... is what this command writes", hint="leave it out")
    answerer = build_vlm(model, options, device=device)
    logits, changed = collect_asked(answerer, list(read_rows(data, split)))
    calibration = fit_scores(logits, changed, fitted_on=f"{data.name}/{split}")
    reports = {f"{data.name}/{split}": report_scores(logits, changed, calibration)}
    for other in check:
        reports[other.parent.name] = report_scores(*collect_asked(answerer, list(read_manifest(other))), calibration)
    values = calibration.model_dump(include={"temperature", "bias", "threshold", "fitted_on"})
    values |= {"fitted_for": answerer.asked_as, "reports": reports}
    write_text(out, json_text(values) + "\n")
    notes().print(f"{answerer.card.name}: {answerer.usage}", markup=False, soft_wrap=True)
    _tell_scores(calibration, reports, values, as_json)


def _tell_scores(
    calibration: Calibration, reports: dict[str, dict[str, Any]], values: dict[str, Any], as_json: bool
) -> None:
    if as_json:
        print_json(values)
        return
    print_line(f"temperature {calibration.temperature}, bias {calibration.bias}, threshold {calibration.threshold}")
    for name, found in reports.items():
        print_line(
            f"{name}: change accuracy {found['change_accuracy']:.4f}, "
            f"calibration error {found['expected_calibration_error']:.4f}"
        )
