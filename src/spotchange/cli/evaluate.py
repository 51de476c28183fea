"""`spotchange evaluate`: every number about a model, or any system's captions, on a data set."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spotchange.cli.cluster import Address, Engine, GpusPerWorker, Workers, cluster_of, kept_rows, rate
from spotchange.cli.decoding import Beam, Decode, Decoding, MaxWords, Meteor
from spotchange.cli.device import Device
from spotchange.cli.model_options import (
    MODEL_HELP,
    Differences,
    Hints,
    MaxNewTokens,
    ModelOptions,
    Runtime,
    parse_options,
    print_usage,
)
from spotchange.cli.output import HTML, check_result_file, notes, print_json, progress, show_tables, tables
from spotchange.errors import InputError
from spotchange.files import json_text, write_text
from spotchange.storage import as_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spotchange.cluster import ClusterOptions, Resumption
    from spotchange.data import Row
    from spotchange.evaluation import Evaluation, EvaluationOptions
    from spotchange.evaluation.judging.judge import Judge
    from spotchange.evaluation.predictions import SystemOutputs


def evaluate(
    model: Annotated[str, typer.Argument(help="A file of captions, or: " + MODEL_HELP)],
    data_set: Annotated[
        Path,
        typer.Argument(
            parser=as_place, metavar="DATASET", help="A folder with SPLIT/metadata.jsonl in it, or tar shards."
        ),
    ],
    split: Annotated[str, typer.Option(help="Which split; choose settings on val, report on test.")] = "val",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything, item scores included, as JSON.")] = False,
    report: Annotated[
        Path | None,
        typer.Option(parser=as_place, metavar="FILE", help="Write a page with tables, plots and pairs here."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=as_place, metavar="FILE", help="Write everything, item scores included, as JSON here."),
    ] = None,
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
    judge: Annotated[
        str | None,
        typer.Option(help="Let vlm:... or openai:... match every caption against the pair's true differences."),
    ] = None,
    judge_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="As --model-option, for the judge.")
    ] = None,
    hints: Hints = False,
    differences: Differences = None,
    max_new_tokens: MaxNewTokens = None,
    model_option: ModelOptions = None,
    device: Device = "auto",
    runtime: Runtime = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Pairs computed together.")] = 16,
    decode: Decoding = Decode.BEAM,
    beam: Beam = 3,
    max_words: MaxWords = 32,
    meteor: Meteor = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of intervals and tests.")] = 0,
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    gpus_per_worker: GpusPerWorker = 0.0,
) -> None:
    """Caption a split and measure: standard metrics, verdicts, facts, pointing; in total and by change type.

    With --engine ray a run that is killed goes on: answers lie in FILE.shards, beside --out or else --report, until
    all is measured.
    """
    from spotchange.evaluation import EvaluationOptions
    from spotchange.evaluation import evaluate as run

    check_result_file("--out", out, begins='{"schema_version": ')
    check_result_file("--report", report, begins=HTML)
    model_options = parse_options(model_option, hints=hints, differences=differences, max_new_tokens=max_new_tokens)
    if model_options and not any(_is_asked(name) for name in (model, compare or "")):
        raise InputError("--model-option is for vision-language models", hint="vlm:... or openai:...")
    if judge_option and judge is None:
        raise InputError("--judge-option needs --judge", hint="--judge openai:http://localhost:8000/v1#MODEL")
    asked_judge = None if judge is None else _load_judge(judge, judge_option, device)
    cluster = cluster_of(engine, address, workers, gpus_per_worker)
    if cluster is not None and retrieval:
        raise InputError("--retrieval ranks all captions at once, on one machine", hint="leave out --engine ray")
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
        beams=1 if decode is Decode.GREEDY else beam,
        max_words=max_words,
        seed=seed,
        meteor=meteor,
    )
    systems = [model, *([] if compare is None else [compare])]
    with kept_rows(cluster, out, report, parts=len(systems)) as kept:
        answer = partial(_answer, options, model_options, cluster, dict(zip(systems, kept, strict=False)))
        try:
            evaluation = run(model, data_set, options, answer=answer, judge=asked_judge)
        finally:  # what was asked before an error is paid for
            if asked_judge is not None:
                print_usage(f"judge {asked_judge.name}", asked_judge.usage)
        if out is not None:
            write_text(out, json_text(evaluation.as_dict()) + "\n")
        _show(evaluation, report, as_json=as_json)


def _answer(
    options: EvaluationOptions,
    model_options: dict[str, str],
    cluster: ClusterOptions | None,
    kept: dict[str, Resumption],
    name: str,
    rows: Sequence[Row],
) -> SystemOutputs:
    """A system's captions of the rows, with a bar that tells how far it is."""
    from spotchange.evaluation.predictions import outputs_of

    with progress(rate("pairs")) as bar:
        task = bar.add_task(f"captions of {name}", total=len(rows))
        answered = outputs_of(
            name,
            rows,
            device=options.device,
            runtime=options.runtime,
            model_options=model_options if _is_asked(name) else None,
            batch_size=options.batch_size,
            beams=options.beams,
            max_words=options.max_words,
            advance=lambda done: bar.advance(task, done),
            cluster=cluster,
            kept=kept.get(name),
        )
    print_usage(answered.name, answered.usage)
    return answered


def _show(evaluation: Evaluation, report: Path | None, *, as_json: bool) -> None:
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


def _is_asked(name: str) -> bool:
    from spotchange.answering.interface import ASKED

    return name.partition(":")[0] in ASKED


def _load_judge(name: str, options: list[str] | None, device: str) -> Judge:
    from spotchange.evaluation.judging.judge import Judge

    return Judge.load(name, parse_options(options, flag="--judge-option"), device=device)


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
