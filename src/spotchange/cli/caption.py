"""`spotchange caption`: two images in, a sentence out; or many pairs at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spotchange.cli.cluster import Address, Engine, GpusPerWorker, Workers, cluster_of, rate, tell, tell_workers
from spotchange.cli.decoding import Beam, Decode, Decoding, MaxWords
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
from spotchange.cli.output import check_result_image, notes, print_json, print_line, progress
from spotchange.cli.rectangles import Ignored, parse_box
from spotchange.errors import InputError
from spotchange.storage import as_place, is_address

if TYPE_CHECKING:
    from spotchange.answering import Captioner, CaptionOptions, LoadOptions
    from spotchange.answering.bulk.one_machine import NamedPair, Tally
    from spotchange.cluster import ClusterOptions

BATCH_SIZE = 16
MANIFEST = (
    "Caption every line of this file: JSON with id, before_file_name and after_file_name (or before, after). "
    "Or tar shards: one, a folder of them, or 'DIR/train-*.tar'."
)


def caption(
    before: Annotated[
        Path | None, typer.Argument(parser=as_place, help="The image before, or a folder of them.")
    ] = None,
    after: Annotated[
        Path | None, typer.Argument(parser=as_place, help="The image after, or a folder with the same names.")
    ] = None,
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = "bundled",
    hints: Hints = False,
    differences: Differences = None,
    max_new_tokens: MaxNewTokens = None,
    model_option: ModelOptions = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    heatmap: Annotated[Path | None, typer.Option(help="Write both images, with what changed marked, here.")] = None,
    pairs: Annotated[Path | None, typer.Option(parser=as_place, metavar="FILE", help=MANIFEST)] = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=as_place, metavar="FILE", help="Write results of many pairs here, as JSON lines."),
    ] = None,
    decode: Decoding = Decode.BEAM,
    beam: Beam = 3,
    max_words: MaxWords = 32,
    threshold: Annotated[float | None, typer.Option(min=0, max=1, help="Change score that counts as a change.")] = None,
    ignore: Ignored = None,
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads to use.")] = None,
    runtime: Runtime = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Pairs computed together.")] = BATCH_SIZE,
    fail_on_change: Annotated[bool, typer.Option("--fail-on-change", help="Exit with 1 if something changed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what --out holds; every pair is looked at.")] = False,
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    gpus_per_worker: GpusPerWorker = 0.0,
) -> None:
    """Say what changed between two images."""
    many = _asks_many(before, after, pairs, heatmap=heatmap, out=out)
    cluster = cluster_of(engine, address, workers, gpus_per_worker)
    if cluster is not None and not many:
        raise InputError("--engine ray is for many pairs", hint="give --pairs or two folders")
    # Everything cheap is checked before the model is loaded.
    boxes = tuple(parse_box(text) for text in ignore or [])
    named = _named_pairs(before, after, pairs) if many else []
    _check_outputs(named, [each for each in (before, after, pairs) if each is not None], out, heatmap, force=force)

    from spotchange.answering import CaptionOptions, LoadOptions, load

    beams = 1 if decode is Decode.GREEDY else beam
    options = CaptionOptions(beams=beams, max_words=max_words, threshold=threshold, ignore=boxes)
    model_options = parse_options(model_option, hints=hints, differences=differences, max_new_tokens=max_new_tokens)
    tally: Tally | None = None
    if cluster is not None or is_address(out):  # a store cannot be added to line by line
        # Workers share machines: a core each, unless asked otherwise.
        threads = threads or (1 if cluster else None)
        how = LoadOptions(device=device, threads=threads, runtime=runtime, model_options=model_options)
        tally = _caption_in_workers(model, how, options, batch_size, named, out, cluster, as_json=as_json, force=force)
    else:
        captioner = load(model, device=device, threads=threads, runtime=runtime, model_options=model_options)
        try:
            if out is not None:
                asked = (model, model_options)
                tally = _write_many(captioner, named, out, options, batch_size, model=asked, force=force)
            elif many:
                tally = _print_many(_lines(captioner, named, options, batch_size), as_json=as_json)
            else:
                assert before is not None
                assert after is not None
                changed = _caption_one(captioner, before, after, heatmap, options, as_json)["changed"]
        finally:  # what was asked before an error is paid for
            print_usage(captioner.name, captioner.usage)
    if tally is not None:
        if tally.failed:
            raise InputError(f"{tally.failed} of {tally.pairs} pairs failed; their lines say why")
        changed = tally.changed > 0
    if fail_on_change and changed:
        raise typer.Exit(1)


def _asks_many(
    before: Path | None, after: Path | None, pairs: Path | None, *, heatmap: Path | None, out: Path | None
) -> bool:
    """Whether many pairs are meant; refuses what does not go together."""
    many = pairs is not None or (before is not None and before.is_dir()) or (after is not None and after.is_dir())
    if pairs is not None and (before is not None or after is not None):
        raise InputError("give two images or --pairs, not both")
    if pairs is None and (before is None or after is None):
        raise InputError("two images are needed", hint="spotchange caption before.png after.png")
    if many and heatmap is not None:
        raise InputError("--heatmap is for one pair", hint="caption the pair you want to see on its own")
    if not many and out is not None:
        raise InputError("--out is for many pairs", hint="use --json and redirect the output")
    return many


def _named_pairs(before: Path | None, after: Path | None, pairs: Path | None) -> list[NamedPair]:
    from spotchange.answering.bulk.one_machine import (
        pairs_from_folders,
        pairs_from_manifest,
        pairs_from_shards,
        unpaired,
    )

    if pairs is not None and _is_shards(pairs):
        return pairs_from_shards(pairs, told=tell)
    if pairs is not None:
        return pairs_from_manifest(pairs)
    assert before is not None
    assert after is not None
    named = pairs_from_folders(before, after)
    alone = unpaired(before, after)
    if alone:
        listed = ", ".join(str(path) for path in alone[:5]) + (", ..." if len(alone) > 5 else "")
        notes().print(f"warning: {len(alone)} images have no partner: {listed}", markup=False, soft_wrap=True)
    return named


def _is_shards(pairs: Path) -> bool:
    # A file first: of a web server's page of links nothing else tells that it is no folder.
    return pairs.suffix.lower() == ".tar" or (not pairs.is_file() and pairs.is_dir())


def _check_outputs(
    named: list[NamedPair], given: list[Path], out: Path | None, heatmap: Path | None, *, force: bool
) -> None:
    """Nothing that is read here is written over, and no file of another kind either."""
    if out is not None:
        from spotchange.answering.bulk.one_machine import check_results_file

        inputs = [*given, *(path for pair in named for path in (pair.before, pair.after))]
        check_results_file(out, inputs, force=force)
    check_result_image("--heatmap", heatmap, inputs=given, suffixes=(".png", ".jpg", ".jpeg", ".webp"))


def _caption_one(
    captioner: Captioner, before: Path, after: Path, heatmap: Path | None, options: CaptionOptions, as_json: bool
) -> dict[str, Any]:
    from spotchange.files import atomic_path

    answer = captioner.answer(before, after, options=options)
    if heatmap is not None:
        with atomic_path(heatmap) as temporary:
            answer.figure().save(temporary)
    result = answer.result.to_dict()
    if as_json:
        print_json(result)
    else:
        print_line(answer.result.caption)
        for difference in answer.result.differences:
            print_line(f"- {difference}")
        for warning in answer.result.warnings:
            notes().print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    return result


def _lines(
    captioner: Captioner, named: list[NamedPair], options: CaptionOptions, batch_size: int
) -> Iterator[dict[str, Any]]:
    from spotchange.answering.bulk.one_machine import caption_pairs

    yield from caption_pairs(captioner, named, options=options, batch_size=batch_size)


def _print_many(lines: Iterable[dict[str, Any]], *, as_json: bool) -> Tally:
    """A line a pair, as they are made."""
    from spotchange.answering.bulk.one_machine import Tally

    tally = Tally()
    for line in lines:
        if as_json:
            print_json(line)
        else:
            print_line(f"{line['id']}: {line['caption'] if 'caption' in line else 'error: ' + line['error']}")
        tally.add([line])
    return tally


def _caption_in_workers(
    model: str,
    how: LoadOptions,
    options: CaptionOptions,
    batch_size: int,
    named: list[NamedPair],
    out: Path | None,
    cluster: ClusterOptions | None,
    *,
    as_json: bool,
    force: bool,
) -> Tally:
    """On a cluster; with results that go to a store also in this process."""
    from spotchange.answering.bulk.fingerprint import asked_fingerprint
    from spotchange.answering.bulk.on_cluster import CaptionWork, lines_from_cluster, write_from_cluster
    from spotchange.answering.bulk.spending import shared_usage

    asked = None if out is None else asked_fingerprint(model, how.model_options, options)
    work = CaptionWork(model=model, load=how, options=options, batch_size=batch_size, asked=asked)
    name, usage = shared_usage(model, how, far=cluster is not None)
    try:
        if out is None:
            assert cluster is not None
            lines = lines_from_cluster(work, named, cluster, usage=usage, started=tell_workers)
            return _print_many(lines, as_json=as_json)
        with progress(rate("pairs")) as bar:
            task = bar.add_task("pairs", total=len(named))
            tally = write_from_cluster(
                work,
                named,
                out,
                cluster,
                advance=lambda steps: bar.advance(task, steps),
                usage=usage,
                started=tell_workers,
                told=tell,
                force=force,
            )
        notes().print(f"{out}: {tally.pairs} pairs", markup=False, soft_wrap=True)
        return tally
    finally:  # what was asked before an error is paid for
        print_usage(name, usage)


def _write_many(
    captioner: Captioner,
    named: list[NamedPair],
    out: Path,
    options: CaptionOptions,
    batch_size: int,
    *,
    model: tuple[str, Mapping[str, Any]],
    force: bool,
) -> Tally:
    from spotchange.answering.bulk.fingerprint import asked_fingerprint
    from spotchange.answering.bulk.one_machine import write_results

    with progress(rate("pairs")) as bar:
        task = bar.add_task("pairs", total=len(named))
        tally = write_results(
            captioner,
            named,
            out,
            asked=asked_fingerprint(*model, options, signature=captioner.asked_as),
            options=options,
            batch_size=batch_size,
            advance=lambda steps: bar.advance(task, steps),
            force=force,
        )
    notes().print(f"{out}: {tally.pairs} pairs", markup=False, soft_wrap=True)
    return tally
