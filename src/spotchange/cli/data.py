"""`spotchange data`: check, preview, list, import, shard and unshard data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spotchange.cli.features import features
from spotchange.cli.help import PlainGroup
from spotchange.cli.output import check_result_image, notes, print_json, print_line, print_written, progress, tables
from spotchange.locks import one_writer
from spotchange.storage import as_place

if TYPE_CHECKING:
    from spotchange.data.check import DatasetReport

app = typer.Typer(
    cls=PlainGroup,
    help="Look at, check, import and pack data sets of image pairs.",
    epilog="Example: spotchange data list",
    no_args_is_help=True,
)

PROBLEMS_SHOWN = 50  # of an import, unless all are asked for

DataDir = Annotated[
    Path,
    typer.Argument(parser=as_place, metavar="DIR", help="Folder with train, val, test, each holding metadata.jsonl."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Go on without bad rows, and count them.")]


@app.command(epilog="Example: spotchange data check data/toy")
def check(
    data_dir: DataDir,
    decode: Annotated[
        bool, typer.Option("--decode", help="Decode every image; otherwise only headers are read.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Count and check everything in a data set; exits with 2 when something is broken."""
    from spotchange.data.check import check_dataset

    with progress() as bar:
        task = bar.add_task("checking", total=None)
        report = check_dataset(data_dir, decode=decode, advance=lambda step: bar.advance(task, step))
    if as_json:
        print_json(report.to_dict())
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(2)


def _print_report(report: DatasetReport) -> None:
    from rich.table import Table

    table = Table(title=report.path, title_justify="left")
    for heading in ("split", "pairs", "captions"):
        table.add_column(heading, no_wrap=True)  # a number is never cut
    for heading in ("words per caption", "change types", "image sizes", "problems"):
        table.add_column(heading, overflow="fold")
    for split, found in report.splits.items():
        words = found.words_per_caption
        table.add_row(
            split,
            f"{found.rows:,}",
            f"{found.captions:,}",
            f"{words['min']:.0f} to {words['max']:.0f}, mean {words['mean']}" if words else "-",
            _counts(found.change_types),
            _counts(found.picture_sizes),
            f"{found.bad_rows} bad rows, {found.missing_files} missing, {found.unreadable_files} unreadable",
        )
    console = tables()
    console.print(table)
    common = ", ".join(word for word, _ in report.most_common_words[:10])
    print_line(f"vocabulary: {report.vocabulary:,} words ({common} ...)")
    for warning in report.warnings:
        print_line(f"warning: {warning}")
    for problem in report.problems:
        print_line(f"problem: {problem}")
    if report.problem_count > len(report.problems):
        print_line(f"... and {report.problem_count - len(report.problems):,} more problems")
    print_line("ok" if report.ok else f"broken: {report.problem_count:,} problems")


def _counts(counts: dict[str, int], shown: int = 6) -> str:
    parts = [f"{name} {count:,}" for name, count in list(counts.items())[:shown]]
    return ", ".join(parts) + (f" and {len(counts) - shown} more" if len(counts) > shown else "")


@app.command(epilog="Example: spotchange data preview data/toy --out grid.png")
def preview(
    data_dir: DataDir,
    out: Annotated[Path, typer.Option("--out", help="Image file to write.")],
    split: Annotated[str | None, typer.Option("--split", help="Default: the first there is.")] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=500, help="Pairs to show.")] = 12,
    columns: Annotated[int, typer.Option("--columns", min=1, max=20, help="Pairs beside each other.")] = 2,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which pairs are drawn.")] = 0,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
) -> None:
    """Draw a contact sheet of pairs with their captions and boxes."""
    from spotchange.data import list_splits, read_rows
    from spotchange.data.preview import pick_rows, write_preview
    from spotchange.errors import DataError
    from spotchange.images import SUFFIXES

    check_result_image("--out", out, inputs=(), suffixes=SUFFIXES)
    if out.exists() and out.resolve().is_relative_to(data_dir.resolve()):
        raise DataError(f"--out {out} is part of the data set", hint="choose another name")
    splits = list_splits(data_dir)
    if split is None and not splits:
        raise DataError(f"{data_dir} holds no data set", hint="a data set is DIR/{train,val,test}/metadata.jsonl")
    reader = read_rows(data_dir, split or splits[0], skip_bad=skip_bad)
    rows = pick_rows(reader, count, seed=seed)
    width, height = write_preview(rows, out, columns=columns)
    if reader.bad:
        notes().print(f"{reader.bad} bad rows skipped")
    print_written(out, as_json, width=width, height=height, ids=[row.id for row in rows])


@app.command("list", epilog="Example: spotchange data list --json")
def list_datasets(as_json: AsJson = False) -> None:
    """Say for every data set that can be imported what it is, how large, under which licence, and where to get it."""
    from spotchange.data.importers.catalog import IMPORTERS

    facts = ("name", "title", "what", "size", "licence", "where", "layout", "counts", "check")
    known = [{fact: getattr(importer, fact) for fact in facts} for importer in IMPORTERS.values()]
    if as_json:
        print_json(known)
        return
    console = tables()
    for entry in known:
        console.print(f"{entry['name']}", style="bold")
        for fact in facts[2:]:
            value = _split_counts(entry[fact]) if fact == "counts" else entry[fact]
            console.print(f"  {fact}: {value}", markup=False)
    print_line("import one with: spotchange data import NAME --source DIR --out DIR")


@app.command("import", epilog="Example: spotchange data import spot-the-diff --source downloads/std --out data/std")
def import_(
    name: Annotated[str, typer.Argument(help="Data set, as `spotchange data list` calls it.")],
    source: Annotated[Path, typer.Option("--source", help="Folder as its publisher lays it out.")],
    out: Annotated[Path, typer.Option("--out", help="New folder for the data set.")],
    copy: Annotated[bool, typer.Option("--copy", help="Copy the images instead of linking to them.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out what is bad, and count it.")] = False,
    decode: Annotated[
        bool, typer.Option("--decode", help="Decode every image to find corrupt ones; otherwise headers are read.")
    ] = False,
    all_problems: Annotated[bool, typer.Option("--all-problems", help="List every problem, however many.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a published data set into the project's format; images are linked or copied, never re-encoded."""
    from dataclasses import asdict

    from spotchange.data.importers.convert import import_dataset

    console, seen = notes(), 0

    def show(problem: str) -> None:
        nonlocal seen
        seen += 1
        if all_problems or seen <= PROBLEMS_SHOWN:
            console.print(f"problem: {problem}", markup=False, soft_wrap=True)
        elif seen == PROBLEMS_SHOWN + 1:
            console.print("more problems follow; --all-problems lists every one")

    with progress() as bar:
        task = bar.add_task("importing", total=None)
        with one_writer(out):
            report = import_dataset(
                name,
                source,
                out,
                copy=copy,
                skip_bad=skip_bad,
                decode=decode,
                on_problem=show,
                advance=lambda step: bar.advance(task, step),
            )
    if as_json:
        print_json(asdict(report) | {"complete": report.complete})
        return
    for note in report.notes:
        print_line(f"note: {note}")
    if report.problems:
        print_line(f"skipped: {report.problems:,} problems")
    print_line(f"{report.out}: {_split_counts(report.counts)} pairs")
    if report.complete is not None:
        published = _split_counts(report.published)
        print_line("complete, as published" if report.complete else f"not the whole set, which has {published} pairs")


def _split_counts(counts: dict[str, int] | None) -> str:
    return ", ".join(f"{split} {count:,}" for split, count in counts.items()) if counts else "not known"


@app.command("hold-out", epilog="Example: spotchange data hold-out data/toy --out data/toy-held --share 0.2")
def hold_out(
    data_dir: DataDir,
    out: Annotated[Path, typer.Option("--out", help="New folder for the data set.")],
    share: Annotated[float, typer.Option("--share", help="Part of the training scenes that becomes val.")] = 0.2,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which scenes are drawn.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Draw train and val from a set's train, keeping its own val and test for the end, as official-val and so on."""
    from spotchange.data.folders import hold_out as hold_out_share

    _print_counts(out, hold_out_share(data_dir, out, share=share, seed=seed), as_json)


@app.command(epilog="Example: spotchange data shard data/toy --out data/toy-shards")
def shard(
    data_dir: DataDir,
    out: Annotated[Path, typer.Option("--out", parser=as_place, metavar="DIR", help="Folder for the tar files.")],
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="Pairs in a tar file.")] = 1000,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
) -> None:
    """Pack a data set as WebDataset tar files (KEY.before.jpg, KEY.after.jpg, KEY.json), byte for byte."""
    from spotchange.data.shards import write_shards

    with progress() as bar:
        task = bar.add_task("packing", total=None)
        with one_writer(out):
            counts = write_shards(
                data_dir, out, pairs_per_shard=pairs, skip_bad=skip_bad, advance=lambda step: bar.advance(task, step)
            )
    _print_counts(out, counts, as_json)


@app.command(epilog="Example: spotchange data unshard data/toy-shards --out data/toy-again")
def unshard(
    shards: Annotated[Path, typer.Argument(parser=as_place, metavar="DIR", help="Folder with SPLIT-NNNNNN.tar files.")],
    out: Annotated[Path, typer.Option("--out", help="New folder for the data set.")],
    as_json: AsJson = False,
) -> None:
    """Turn WebDataset tar files back into a data set folder."""
    from spotchange.data.shards import unpack_shards

    with progress() as bar:
        task = bar.add_task("unpacking", total=None)
        with one_writer(out):
            counts = unpack_shards(shards, out, advance=lambda step: bar.advance(task, step))
    _print_counts(out, counts, as_json)


def _print_counts(out: Path, counts: dict[str, int], as_json: bool) -> None:
    if as_json:
        print_json({"out": str(out), "counts": counts})
    else:
        print_line(f"{out}: {_split_counts(counts)} pairs")


app.command(epilog="Example: spotchange data features idc_pcl/scenes-pretrain --scenes 8192 --out f")(features)
