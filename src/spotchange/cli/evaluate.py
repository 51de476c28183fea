"""`spotchange evaluate`: every number about a model, or any system's captions, on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spotchange.cli.decoding import Decode
from spotchange.cli.model_options import MODEL_HELP, ModelOptions, Runtime, parse_options
from spotchange.cli.output import notes, print_json, progress, show_tables, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spotchange.data import Row
    from spotchange.evaluation import Evaluation


def evaluate(
    model: Annotated[str, typer.Argument(help="A file of captions, or: " + MODEL_HELP)],
    data_set: Annotated[Path, typer.Argument(metavar="DATASET", help="A folder with SPLIT/metadata.jsonl in it.")],
    split: Annotated[str, typer.Option(help="Which split; choose settings on val, report on test.")] = "val",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything, item scores included, as JSON.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write a page with tables, plots and pairs here.")] = None,
    retrieval: Annotated[
        bool, typer.Option("--retrieval", help="Rank captions for pairs and pairs for captions too.")
    ] = False,
    compare: Annotated[str | None, typer.Option(help="Another model or captions file, with a paired test.")] = None,
    published: Annotated[
        str | None, typer.Option(metavar="NAME", help="Print the papers' rows: clevr-change, spot-the-diff, ...")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(metavar="NAME", help="Score as the set's papers do: levir-cc, ...")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N pairs.")] = None,
    model_option: ModelOptions = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    runtime: Runtime = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Pairs computed together.")] = 16,
    decode: Annotated[Decode, typer.Option(help="greedy, as the papers decode, or beam.")] = Decode.BEAM,
    beam: Annotated[int, typer.Option(min=1, max=32, help="Sentences kept while searching.")] = 3,
    max_words: Annotated[int, typer.Option(min=1, max=512, help="Longest caption, in tokens.")] = 32,
    meteor: Annotated[bool, typer.Option("--meteor/--no-meteor", help="METEOR takes the longest by far.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of intervals and tests.")] = 0,
) -> None:
    """Caption a split and measure: standard metrics, verdicts, facts, pointing; in total and by change type."""
    from spotchange.evaluation import EvaluationOptions
    from spotchange.evaluation import evaluate as run
    from spotchange.evaluation.predictions import SystemOutputs, outputs_of

    beams = 1 if decode is Decode.GREEDY else beam
    if retrieval and runtime == "auto":
        runtime = "torch"  # graphs are exported for captions only
    options = EvaluationOptions(
        split=split,
        compare=compare,
        published=published,
        retrieval=retrieval,
        limit=limit,
        protocol=protocol,
        device=device,
        runtime=runtime,
        batch_size=batch_size,
        beams=beams,
        max_words=max_words,
        seed=seed,
        meteor=meteor,
    )

    def answer(name: str, rows: Sequence[Row]) -> SystemOutputs:
        with progress() as bar:
            task = bar.add_task(f"captions of {name}", total=len(rows))
            return outputs_of(
                name,
                rows,
                device=device,
                runtime=runtime,
                model_options=parse_options(model_option),
                batch_size=batch_size,
                beams=beams,
                max_words=max_words,
                advance=lambda done: bar.advance(task, done),
            )

    evaluation = run(model, data_set, options, answer=answer)
    for note in evaluation.notes:
        notes().print("note:", note, markup=False, soft_wrap=True)
    if report is not None:
        from spotchange.reports.evaluation_report import write_report

        write_report(evaluation, report)
        notes().print(f"report: {report}", markup=False, soft_wrap=True)
    if as_json:
        print_json(evaluation.as_dict())
    else:
        _print_tables(evaluation)


def _print_tables(evaluation: Evaluation) -> None:
    from spotchange.evaluation.published import CAVEAT
    from spotchange.reports.tables import tables_of

    show_tables(tables_of(evaluation))
    console = tables()
    console.print(str(evaluation.constant_caption), markup=False, soft_wrap=True)
    for system in evaluation.systems:
        console.print(system.signature, markup=False, soft_wrap=True)
    if evaluation.published:
        console.print(CAVEAT, markup=False, soft_wrap=True)
