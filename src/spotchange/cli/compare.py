"""`spotchange compare`: the same pictures in two folders, for visual regression tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spotchange.cli.caption import BATCH_SIZE, parse_box
from spotchange.cli.output import notes, print_json, print_line, progress
from spotchange.errors import InputError
from spotchange.files import write_text

if TYPE_CHECKING:
    from spotchange.answering import Captioner, CaptionOptions
    from spotchange.reports.comparison import Comparison, FolderPlan


def compare(
    before: Annotated[Path, typer.Argument(help="The folder with the pictures as they should be.")],
    after: Annotated[Path, typer.Argument(help="The folder with the pictures as they are now.")],
    report: Annotated[Path | None, typer.Option(help="Write a page with a slider for each pair here.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit XML file for CI here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    fail_on_change: Annotated[
        bool, typer.Option("--fail-on-change", help="Exit with 1 if a picture is changed, missing or new.")
    ] = False,
    update_baseline: Annotated[
        bool,
        typer.Option(
            "--update-baseline",
            help="Accept the changes: copy changed and new pictures into the first folder, remove missing ones there.",
        ),
    ] = False,
    allow_delete: Annotated[
        bool, typer.Option("--allow-delete", help="Let --update-baseline delete more pictures than it keeps.")
    ] = False,
    ignore: Annotated[list[str] | None, typer.Option(help="Leave out the rectangle x,y,w,h; may be repeated.")] = None,
    threshold: Annotated[float | None, typer.Option(min=0, max=1, help="Change score that counts as a change.")] = None,
    model: Annotated[str, typer.Option(help="A model folder, or 'bundled'.")] = "bundled",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads to use.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Pairs computed together.")] = BATCH_SIZE,
) -> None:
    """Say what changed between the pictures of two folders: new, missing, identical, changed."""
    if fail_on_change and update_baseline:
        raise InputError("--fail-on-change and --update-baseline contradict each other", hint="give one of them")
    boxes = tuple(parse_box(text) for text in ignore or [])

    from spotchange.answering import CaptionOptions, load
    from spotchange.reports import comparison as folders

    plan = folders.plan_comparison(before, after)
    if update_baseline and not allow_delete:
        folders.check_deletions(plan)
    options = CaptionOptions(threshold=threshold, ignore=boxes)
    # Folders with the same bytes need no model, which keeps the usual run of a CI job short.
    captioner = load(model, device=device, threads=threads) if plan.differing else None
    compared = _compare(captioner, plan, options, batch_size, views=report is not None)
    _write(compared, report, junit)
    if as_json:
        print_json(compared.to_dict())
    else:
        _print(compared)
    failed = compared.counts["failed"]
    if failed:
        raise InputError(f"{failed} of {len(compared.files)} pictures cannot be read; their lines say why")
    if update_baseline:
        count = folders.update_baseline(compared)
        notes().print(f"{count} pictures updated in {before}", markup=False, soft_wrap=True)
    if fail_on_change and compared.differs:
        raise typer.Exit(1)


def _compare(
    captioner: Captioner | None, plan: FolderPlan, options: CaptionOptions, batch_size: int, *, views: bool
) -> Comparison:
    from spotchange.reports.comparison import compare_folders

    with progress() as bar:
        total = len(plan.missing) + len(plan.new) + len(plan.identical) + len(plan.differing)
        task = bar.add_task("pictures", total=total)
        return compare_folders(
            captioner,
            plan,
            options=options,
            batch_size=batch_size,
            views=views,
            advance=lambda files: bar.advance(task, files),
        )


def _write(compared: Comparison, report: Path | None, junit: Path | None) -> None:
    from spotchange.reports.junit import junit_xml
    from spotchange.reports.pair_report import comparison_html

    if report is not None:
        write_text(report, comparison_html(compared))
    if junit is not None:
        write_text(junit, junit_xml(compared))


def _print(compared: Comparison) -> None:
    """One line a picture that is not identical, then the counts."""
    for each in compared.files:
        if each.status == "identical":
            continue
        told = each.error if each.result is None else f"{each.result.caption} ({each.result.change_score:.2f})"
        print_line(f"{each.status}: {each.name}" + (f": {told}" if told else ""))
    print_line(", ".join(f"{count} {status}" for status, count in compared.counts.items() if count))
