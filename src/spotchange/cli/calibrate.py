"""`spotchange models calibrate` and `export`: what happens to a model between training and shipping."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spotchange.cli.output import print_json, print_line
from spotchange.errors import InputError


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


def export(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="A model folder, such as RUN/best; of several, the mean.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    stored: Annotated[str, typer.Option(help="How weights are stored: float32, float16 or bfloat16.")] = "float16",
    shard_mib: Annotated[int, typer.Option(min=1, help="Largest weight file, in MiB.")] = 15,
    keep_text_encoder: Annotated[bool, typer.Option(help="Keep what only retrieval needs.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the model that --out holds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a small copy of a model for captioning: half precision, in shards, without the text encoder.

    Several models that were trained from one start (other seeds of a last stage) become the mean of their weights.
    """
    from spotchange.answering import model_folder
    from spotchange.models.weights.averaging import average
    from spotchange.models.weights.folder import check_replaceable, save_model

    if stored not in {"float32", "float16", "bfloat16"}:
        raise InputError(f"--stored {stored!r}: choose float32, float16 or bfloat16")
    check_replaceable(out, force=force)
    folders = [model_folder(name) for name in models]
    folder, loaded = folders[0], average(folders)
    kept = ("recipe.yaml", "README.md", "calibration.json")
    save_model(
        out,
        model=loaded.model,
        settings=loaded.settings,
        tokenizer=loaded.tokenizer,
        preprocessor=loaded.preprocessor,
        texts={name: (folder / name).read_text(encoding="utf-8") for name in kept if (folder / name).is_file()},
        stored=stored,
        max_shard_bytes=shard_mib * 2**20,
        keep_text_encoder=keep_text_encoder,
    )
    size = sum(path.stat().st_size for path in out.iterdir())
    if as_json:
        print_json({"out": str(out), "bytes": size})
    else:
        print_line(f"{out}: {size / 2**20:.1f} MiB")
