"""`spotchange compare`: the same images in two folders, for visual regression tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spotchange.cli.cluster import Address, Engine, GpusPerWorker, cluster_of, kept_rows, rate
from spotchange.cli.compare_results import ResultFiles
from spotchange.cli.model_options import (
    Differences,
    Hints,
    MaxNewTokens,
    ModelOptions,
    Runtime,
    parse_options,
    print_usage,
)
from spotchange.cli.output import notes, print_json, print_line, progress
from spotchange.cli.rectangles import Ignored, parse_box
from spotchange.errors import InputError
from spotchange.storage import as_place

if TYPE_CHECKING:
    from spotchange.answering import Captioner
    from spotchange.answering.interface import Usage
    from spotchange.cluster import ClusterOptions
    from spotchange.regression import ComparedFile, FolderComparison, FolderPlan
    from spotchange.regression.wording import Wording

Preset = Literal["exact", "tolerant", "photos"]


def compare(
    before: Annotated[Path, typer.Argument(parser=as_place, help="The folder with the images as they should be.")],
    after: Annotated[
        Path | None, typer.Argument(parser=as_place, help="The folder with the images as they are now.")
    ] = None,
    preset: Annotated[
        Preset | None,
        typer.Option(help="exact: any difference counts; tolerant: threshold 0.1, no anti-aliasing; photos: aligned."),
    ] = None,
    pixel_threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="YIQ distance up to which a pixel does not count.")
    ] = None,
    max_diff_pixels: Annotated[int | None, typer.Option(min=0, help="Differing pixels that are accepted.")] = None,
    max_diff_ratio: Annotated[
        float | None, typer.Option(min=0, max=1, help="Share of differing pixels that is accepted.")
    ] = None,
    ignore: Ignored = None,
    scale: Annotated[bool, typer.Option("--scale", help="Scale after to before's size first.")] = False,
    include: Annotated[list[str] | None, typer.Option(help="Only names that match this glob; may be repeated.")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings and rules; default: spotchange.yaml, if there.")] = None,
    diff_dir: Annotated[
        Path | None,
        typer.Option(parser=as_place, metavar="DIR", help="Write a diff image of every differing pair here."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(parser=as_place, metavar="FILE", help="Write a page to look at here.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(parser=as_place, metavar="FILE", help="Write a JUnit XML file for CI here.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(parser=as_place, metavar="FILE", help="Write a summary for a pull request here.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(parser=as_place, metavar="FILE", help="Write a JSON line per image here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON at the end.")] = False,
    json_lines: Annotated[bool, typer.Option("--json-lines", help="Print a JSON line per image at once.")] = False,
    fail_on_change: Annotated[
        bool, typer.Option("--fail-on-change", help="Exit with 1 if an image is changed, missing or new.")
    ] = False,
    update_baseline: Annotated[
        bool,
        typer.Option(
            "--update-baseline",
            help="Accept the changes: copy changed and new images into the first folder, remove missing ones there.",
        ),
    ] = False,
    only: Annotated[list[str] | None, typer.Option(help="With --update-baseline: names to accept, as globs.")] = None,
    allow_delete: Annotated[
        bool, typer.Option("--allow-delete", help="Let --update-baseline delete more images than it keeps.")
    ] = False,
    learn_ignore: Annotated[
        Path | None,
        typer.Option(help="Learn from repeated captures in this folder what flickers; written to the settings file."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Let this model word the change; the verdict stands.")] = None,
    hints: Hints = False,
    differences: Differences = None,
    max_new_tokens: MaxNewTokens = None,
    model_option: ModelOptions = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N, for --model.")] = "auto",
    runtime: Runtime = "auto",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")] = None,
    engine: Engine = "local",
    address: Address = None,
    gpus_per_worker: GpusPerWorker = 0.0,
) -> None:
    """Say what changed between the images of two folders: new, missing, identical, changed.

    With --engine ray a run that is killed goes on: rows lie in FILE.shards, beside the first of --out, --report,
    --junit and --markdown, until all are there.

    Exit codes: 0 done; 1 with --fail-on-change, if anything is changed, missing or new; 2 bad input.
    """
    from spotchange.regression import settings as regression_settings

    if learn_ignore is not None:
        _learn(learn_ignore, config or Path(regression_settings.CONFIG_FILE), as_json)
        return
    if after is None:
        raise InputError("two folders are needed", hint="spotchange compare shots/main shots/branch")
    # Without a cluster --workers are processes of this machine.
    cluster = cluster_of(engine, address, workers if engine == "ray" else None, gpus_per_worker)
    if fail_on_change and update_baseline:
        raise InputError("--fail-on-change and --update-baseline contradict each other", hint="give one of them")
    if only and not update_baseline:
        raise InputError("--only chooses what --update-baseline accepts", hint="--include chooses what is compared")
    if as_json and json_lines:
        raise InputError("--json and --json-lines contradict each other", hint="give one of them")
    model_options = parse_options(model_option, hints=hints, differences=differences, max_new_tokens=max_new_tokens)
    if model_options and model is None:
        raise InputError("--hints, --differences, --max-new-tokens and --model-option need --model")
    given = regression_settings.Tolerances(
        preset=preset,
        pixel_threshold=pixel_threshold,
        max_diff_pixels=max_diff_pixels,
        max_diff_ratio=max_diff_ratio,
        ignore=tuple(parse_box(text) for text in ignore or []),
        scale=scale or None,
    )
    files = ResultFiles(out=out, report=report, junit=junit, markdown=markdown, diff_dir=diff_dir)
    files.check(before, after)
    settings = regression_settings.read_settings(config)

    from spotchange.regression import plan_folders
    from spotchange.regression.baseline import check_deletions
    from spotchange.regression.baseline import update_baseline as approve

    plan = plan_folders(before, after, include=include or ())
    if update_baseline and not allow_delete:
        check_deletions(plan, only or ())
    words = _wording(model, device, runtime, model_options, cluster) if model is not None and plan.differing else None
    captioner = words.start() if words is not None and cluster is None else None
    name, usage = _spending(words, captioner)
    with kept_rows(cluster, *files.written_last) as kept:
        compared = _compare(
            plan,
            json_lines,
            settings=settings,
            given=given,
            outputs=files.of_pairs(),
            captioner=captioner,
            workers=workers,
            cluster=cluster,
            words=words,
            usage=usage,
            kept=kept[0] if kept else None,
        )
        print_usage(name, usage)
        files.write(compared)
    if as_json:
        print_json(compared.to_dict())
    elif not json_lines:
        _print(compared)
    if failed := compared.counts["failed"]:
        raise InputError(f"{failed} of {len(compared.files)} images cannot be read; their lines say why")
    if update_baseline:
        accepted = approve(compared, only or ())
        notes().print(f"{len(accepted)} images updated in {before}", markup=False, soft_wrap=True)
    if fail_on_change and compared.differs:
        raise typer.Exit(1)


def _learn(captures: Path, path: Path, as_json: bool) -> None:
    from spotchange.regression.learn import learn_ignored, write_learned

    learned = learn_ignored(captures)
    write_learned(path, learned)
    if as_json:
        print_json({name: [list(box) for box in boxes] for name, boxes in learned.items()})
        return
    for name, boxes in learned.items():
        print_line(f"{name}: {len(boxes)} rectangles: " + " ".join(",".join(map(str, box)) for box in boxes))
    notes().print(f"written to {path}", markup=False, soft_wrap=True)


def _wording(model: str, device: str, runtime: str, options: dict[str, str], cluster: ClusterOptions | None) -> Wording:
    from spotchange.answering import LoadOptions
    from spotchange.regression.wording import Wording

    # Workers share machines: a core each.
    threads = None if cluster is None else 1
    return Wording(
        model=model, options=LoadOptions(device=device, threads=threads, runtime=runtime, model_options=options)
    )


def _spending(words: Wording | None, captioner: Captioner | None) -> tuple[str, Usage | None]:
    """What the model is called, and where is counted what asking it takes."""
    if captioner is not None:
        return captioner.name, captioner.usage
    if words is None:
        return "", None
    from spotchange.answering.bulk.spending import shared_usage

    return shared_usage(words.model, words.options, far=True)


def _compare(plan: FolderPlan, json_lines: bool, **how: Any) -> FolderComparison:
    from spotchange.regression import compare_folders

    with progress(rate("images")) as bar:
        task = bar.add_task("images", total=len(plan))

        def finished(compared: ComparedFile) -> None:
            bar.advance(task, 1)
            if json_lines:
                sys.stdout.write(json.dumps(compared.to_dict(), ensure_ascii=False) + "\n")
                sys.stdout.flush()

        return compare_folders(plan, finished=finished, **how)


def _print(compared: FolderComparison) -> None:
    """One line per image that is not identical, then the counts."""
    for each in compared.files:
        if each.status == "identical":
            continue
        words = each.error
        if each.result is not None:
            result = each.result
            words = f"{result.caption} ({result.diff_pixels} pixels, {100 * (result.diff_ratio or 0):.3g} %)"
        print_line(f"{each.status}: {each.name}" + (f": {words}" if words else ""))
        for difference in each.result.differences if each.result is not None else ():
            print_line(f"- {difference}")
    print_line(", ".join(f"{count} {status}" for status, count in compared.counts.items() if count))
