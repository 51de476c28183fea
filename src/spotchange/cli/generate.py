"""`spotchange generate`: a data set of synthetic scenes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spotchange.cli.cluster import Address, Engine, GpusPerWorker, Workers, cluster_of, rate, tell_workers
from spotchange.cli.device import Device, pick_device
from spotchange.cli.generate_everyday import everyday_split
from spotchange.cli.output import COMPILING, notes, print_json, progress
from spotchange.errors import InputError
from spotchange.storage import as_place

if TYPE_CHECKING:
    from spotchange.cluster import ClusterOptions
    from spotchange.config.scenes import DatasetPlan
    from spotchange.scenes.dataset import Written
    from spotchange.scenes.making import MadeScene, SceneWork

ALL = "all"
MOST_SCENES_A_PIECE = 64  # of the work of a cluster: three or four PNG files each, some 25 MB
TABLE_TOP_ONLY = ("start", "preset", "quality", "references", "masks", "overrides")
MOST_SCENES = 10_000_000  # 140 times what the official set has


def generate(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(parser=as_place, metavar="DIR", help="Folder of the data set; each split is a folder in it.")
    ],
    pairs: Annotated[
        int | None, typer.Option(help="Rows to write, two a scene. Without it: as many as the official split has.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The same seed gives the same scenes.")] = 0,
    split: Annotated[str, typer.Option(help="train, val, test, or all in the official proportions.")] = "train",
    size: Annotated[str, typer.Option(help="Width x height of the images in pixels.")] = "480x320",
    device: Device = "auto",
    start: Annotated[
        int, typer.Option(min=0, max=MOST_SCENES, help="Number of the first scene, to share work over machines.")
    ] = 0,
    preset: Annotated[
        str,
        typer.Option(
            help="clevr-change, or clevr-dc whose cameras go around the scene; -narrow: older, smaller moves."
        ),
    ] = "clevr-change",
    quality: Annotated[str, typer.Option(help="faithful, or fast.")] = "faithful",
    references: Annotated[int, typer.Option(help="Different captions a pair, 6 to 9.")] = 6,
    changes: Annotated[
        str | None,
        typer.Option(
            help="Kinds of change, such as color,move; default all. Of an everyday scene: how many things change at "
            "most, default 1."
        ),
    ] = None,
    masks: Annotated[bool, typer.Option("--masks", help="Also write a mask of the changed object.")] = False,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="A scene setting, such as max_objects=5 or look.jpeg=0.5.")
    ] = None,
    world: Annotated[str, typer.Option(help="table-top, or everyday: things on photos and in rooms.")] = "table-top",
    library: Annotated[
        Path | None, typer.Option(help="Everyday things and backgrounds; without it: those that ship.")
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    gpus_per_worker: GpusPerWorker = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Make a data set: scenes, images, captions and facts.

    Run the same command again to go on after an interruption.
    """
    cluster = cluster_of(engine, address, workers, gpus_per_worker)
    if world == "everyday":
        if cluster is not None:
            raise InputError("--world everyday runs on one machine", hint="leave out --engine ray")
        _refuse_given(context, TABLE_TOP_ONLY, "not for --world everyday")
        everyday_split(
            out=out,
            pairs=pairs,
            seed=seed,
            split=split,
            size=size,
            changes=changes,
            device=device,
            library=library,
            as_json=as_json,
        )
        return
    if world != "table-top":
        raise InputError(f"unknown world '{world}'", hint="use table-top or everyday")
    _refuse_given(context, ("library",), "only for --world everyday")
    plans = _plans(
        split,
        {
            "preset": preset,
            "seed": seed,
            "quality": quality,
            "references": references,
            "masks": masks,
            **parse_size(size),
            "scenes": _scene_values(preset, changes, overrides or []),
        },
    )
    scenes = _scenes(split, pairs)
    began = time.perf_counter()
    written = _generate(plans, scenes, cluster, out=out, start=start, device=pick_device(device))
    seconds = round(time.perf_counter() - began, 2)
    if as_json:
        print_json({"out": str(out), "seed": seed, "splits": [vars(each) for each in written], "seconds": seconds})
        return
    for each in written:
        notes().print(f"{out / each.split}: {each.pairs} pairs ({each.new_pairs} new)", markup=False, soft_wrap=True)


def _refuse_given(context: typer.Context, names: Sequence[str], why: str) -> None:
    """Refuse options that would do nothing."""
    given = [name for name in names if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    if given:
        flags = {parameter.name: parameter.opts[0] for parameter in context.command.params}
        raise InputError(f"{', '.join(flags[name] for name in given)}: {why}")


def _generate(
    plans: Sequence[DatasetPlan],
    scenes: Mapping[str, int],
    cluster: ClusterOptions | None,
    *,
    out: Path,
    start: int,
    device: str,
) -> list[Written]:
    """The splits one after the other, each with a bar that tells how far it is."""
    from spotchange.kernels.compile import announce_compilation
    from spotchange.scenes.dataset import generate_split

    more = {} if cluster is None else {"run": partial(_on_cluster, cluster)}
    written = []
    with progress(rate("pairs")) as bar, announce_compilation(lambda: bar.console.print(COMPILING, style="dim")):
        for plan in plans:
            task = bar.add_task(f"{plan.split}: pairs", total=2 * scenes[plan.split])
            written.append(
                generate_split(
                    plan,
                    out=out,
                    scenes=scenes[plan.split],
                    start=start,
                    device=device,
                    on_pairs=lambda done, task=task: bar.advance(task, done),  # type: ignore[misc]
                    **more,
                )
            )
    return written


def _on_cluster(cluster: ClusterOptions, work: SceneWork, numbers: Sequence[int]) -> Iterator[MadeScene]:
    from spotchange.cluster import in_order, pieces, run_on_ray

    cut = dict(enumerate(pieces(numbers, most=MOST_SCENES_A_PIECE)))
    for made in in_order(run_on_ray(work, cut, cluster, started=tell_workers) if cut else ()):
        yield from made


def parse_size(text: str) -> dict[str, int]:
    """Width and height from "480x320"."""
    width, separator, height = text.lower().partition("x")
    if not separator or not width.isdecimal() or not height.isdecimal():
        raise InputError(f"--size {text!r} is not of the form 480x320")
    return {"width": int(width), "height": int(height)}


def _scene_values(preset: str, changes: str | None, overrides: list[str]) -> dict[str, Any]:
    from spotchange.config.base import apply_override
    from spotchange.config.scenes import scene_preset

    values: dict[str, Any] = {} if changes is None else {"changes": changes}
    for override in overrides:
        apply_override(values, override)
    return scene_preset(preset, **values).model_dump(mode="json")


def _plans(split: str, values: dict[str, Any]) -> list[DatasetPlan]:
    from spotchange.config.scenes import SPLIT_SCENES, DatasetPlan

    splits = list(SPLIT_SCENES) if split == ALL else [split]
    if not set(splits) <= set(SPLIT_SCENES):
        raise InputError(f"unknown split '{split}'", hint=f"use {', '.join(SPLIT_SCENES)} or {ALL}")
    return [DatasetPlan.from_mapping(values | {"split": each}, source="generate") for each in splits]


def _scenes(split: str, pairs: int | None) -> dict[str, int]:
    """How many scenes each split gets."""
    from spotchange.config.scenes import SPLIT_SCENES, proportional_scenes

    if pairs is None:
        return dict(SPLIT_SCENES)
    if pairs > 2 * MOST_SCENES:
        raise InputError(f"--pairs may be {2 * MOST_SCENES:,} at most")
    if pairs < 2:
        raise InputError(f"--pairs must be at least 2, not {pairs}", hint="every scene gives two pairs")
    if pairs % 2:
        raise InputError(
            f"--pairs must be even, not {pairs}: every scene gives a change pair and a distractor pair",
            hint=f"use {pairs - 1} or {pairs + 1}" if pairs > 2 else None,
        )
    if split != ALL:
        return {split: pairs // 2}
    shares = proportional_scenes(pairs // 2)
    if not all(shares.values()):
        least = 2 * -(-sum(SPLIT_SCENES.values()) // min(SPLIT_SCENES.values()))
        raise InputError(f"--split all needs at least {least} pairs, or a split stays empty; {pairs} are too few")
    return shares
