"""`spotchange data features`: images through a frozen network once, for training from features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from spotchange.cli.cluster import Address, Engine, GpusPerWorker, Workers, cluster_of, rate
from spotchange.cli.device import Device, pick_device
from spotchange.cli.output import notes, print_json, print_line, progress
from spotchange.errors import InputError
from spotchange.locks import one_writer
from spotchange.storage import as_place, check_writable

if TYPE_CHECKING:
    from spotchange.data.caches.features import Task

TASKS = ("pairs", "single", "classes")


def features(
    recipe: Annotated[str, typer.Argument(help="Recipe (name or file) whose model has the frozen backbone.")],
    out: Annotated[Path, typer.Option(parser=as_place, metavar="DIR", help="New folder for the features.")],
    task: Annotated[
        str, typer.Option(help="pairs; single: images with captions; classes: images with classes.")
    ] = "pairs",
    scenes: Annotated[int | None, typer.Option(min=2, help="Generate so many scenes.")] = None,
    data: Annotated[Path | None, typer.Option(parser=as_place, metavar="DIR", help="Or take this data set.")] = None,
    split: Annotated[str, typer.Option(help="Of the data set.")] = "train",
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the scenes.")] = 42,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the recipe.")
    ] = None,
    device: Device = "auto",
    bf16: Annotated[
        bool, typer.Option("--bf16", help="Rounder numbers on a CPU too: faster where it computes with them.")
    ] = False,
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    gpus_per_worker: GpusPerWorker = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Make features of generated scenes or of a data set; `data: {kind: features, path: OUT}` trains from them.

    Run the same command again to go on after an interruption.
    """
    from spotchange.config.recipes import find_recipe
    from spotchange.config.sources import DatasetSource
    from spotchange.config.training import Recipe

    cluster = cluster_of(engine, address, workers, gpus_per_worker)
    if task not in TASKS:
        raise InputError(f"unknown task '{task}'", hint=f"use {', '.join(TASKS)}")
    if (scenes is None) == (data is None):
        raise InputError("give either --scenes or --data")
    settings = Recipe.from_yaml(find_recipe(recipe), changes)
    check_writable(out, "--out")
    where = pick_device(device)

    from spotchange.training.randomness import seed_everything
    from spotchange.training.sources.build import scenes_of
    from spotchange.training.sources.extraction import FrozenBackbone, dataset_features, scene_features
    from spotchange.training.start import start_model

    seed_everything(settings.seed, 0)  # as training does, for networks that start random
    backbone = FrozenBackbone.of(start_model(settings), where, bf16=bf16)
    chosen = cast("Task", task)
    with one_writer(out), progress(rate("scenes" if scenes is not None else "pictures")) as bar:
        if scenes is not None:
            job = bar.add_task("scenes", total=scenes)
            facts = scene_features(
                out,
                backbone,
                scenes_of(settings.data),
                task=chosen,
                scenes=scenes,
                seed=seed,
                advance=lambda done: bar.advance(job, done),
                cluster=cluster,
            )
        else:
            job = bar.add_task("pictures", total=None)
            wanted = DatasetSource(kind="dataset", path=str(data), split=split, task=chosen)
            facts = dataset_features(
                out, backbone, wanted, advance=lambda done: bar.advance(job, done), cluster=cluster
            )
    if as_json:
        print_json(vars(facts) | {"out": str(out)})
        return
    notes().print(f"{facts.pictures:,} pictures, {facts.rows:,} rows, network {facts.backbone}", markup=False)
    print_line(str(out))
