"""`spotchange score`: the standard caption metrics for any system's captions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spotchange.cli.decoding import Meteor
from spotchange.cli.output import notes, print_json, print_table, tables

if TYPE_CHECKING:
    from spotchange.metrics import ScoreResult


def score(
    predictions: Annotated[
        Path,
        typer.Argument(help="Captions: {id: caption} JSON, JSON lines with id and caption, or a COCO result file."),
    ],
    references: Annotated[
        Path,
        typer.Argument(
            help="References: {id: \\[text]} JSON, JSON lines with id and captions, or a COCO annotation file."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result, item scores included, as JSON.")] = False,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Score the ids that both files have and say how many.")
    ] = False,
    meteor: Meteor = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap intervals.")] = 0,
) -> None:
    """Score captions with BLEU, METEOR, ROUGE-L and CIDEr-D, digit for digit as the COCO tools do."""
    from spotchange import metrics

    errors: dict[str, str] = {}
    read = metrics.read_predictions(predictions, errors=errors if allow_missing else None)
    captions, texts, left_out = metrics.match_ids(
        read, metrics.read_references(references), allow_missing=allow_missing
    )
    if errors:
        left_out.append(f"{len(errors)} ids carry an error instead of a caption and are left out")
    scorer = metrics.Scorer(texts, meteor=meteor)
    result = scorer.score(captions)
    constant = metrics.best_constant(texts, source="references scored here")
    floor = scorer.score(dict.fromkeys(captions, constant.caption))
    intervals = metrics.bootstrap_intervals(result.summables, seed=seed)
    result.warnings[:0] = left_out + scorer.notes
    for line in result.warnings:
        notes().print("warning:", line, markup=False, soft_wrap=True)
    if as_json:
        floor_json = {"caption": constant.caption, "source": constant.source, "corpus": floor.corpus}
        print_json(result.as_dict() | {"intervals": intervals, "constant": floor_json})
    else:
        _print_table(result, floor, intervals, str(constant))


def _print_table(
    result: ScoreResult, floor: ScoreResult, intervals: dict[str, tuple[float, float]], constant: str
) -> None:
    # One line a metric: seven columns of numbers with intervals would not fit a terminal.
    lines = []
    for name, value in result.corpus.items():
        low, high = intervals[name]
        lines.append([name, _percent(value), f"{_percent(low)}–{_percent(high)}", _percent(floor.corpus[name])])
    print_table(f"{len(result.items)} captions, in percent", ["", "captions", "95 % interval", "constant"], lines)
    console = tables()
    console.print(constant, markup=False, soft_wrap=True)
    console.print(result.signature, markup=False, soft_wrap=True)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"
