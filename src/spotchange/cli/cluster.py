"""`--engine`, `--address`, `--workers` and `--gpus-per-worker`, the same for every verb that computes many pairs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spotchange.cli.output import notes
from spotchange.errors import InputError

if TYPE_CHECKING:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    from spotchange.cluster import ClusterOptions, Resumption

Engine = Annotated[Literal["local", "ray"], typer.Option("--engine", help="local, or ray: workers of a Ray cluster.")]
Address = Annotated[
    str | None, typer.Option("--address", help="Of the Ray cluster, HOST:PORT; without it: one on this machine.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="With --engine ray: how many; default: all cores.")
]
GpusPerWorker = Annotated[
    float, typer.Option("--gpus-per-worker", min=0, help="GPUs a worker of the cluster takes, such as 1 or 0.5.")
]


def cluster_of(
    engine: str, address: str | None, workers: int | None = None, gpus_per_worker: float = 0.0
) -> ClusterOptions | None:
    """The cluster that was asked for; None: this process alone."""
    if engine == "local":
        if address is not None or workers is not None or gpus_per_worker:
            raise InputError("--address, --workers and --gpus-per-worker need --engine ray")
        return None
    from spotchange.cluster import ClusterOptions, check_reachable

    options = ClusterOptions(address=address, workers=workers, gpus_per_worker=gpus_per_worker)
    check_reachable(options)
    return options


@contextmanager
def kept_rows(cluster: ClusterOptions | None, *results: Path | None, parts: int = 1) -> Iterator[list[Resumption]]:
    """Where finished rows lie until the block ends well: beside the first result that goes to a file.

    None for a run on one machine, and for one that only prints: there is no place its user could predict.
    """
    place = next((each for each in results if each is not None), None)
    if cluster is None or place is None:
        yield []
        return
    from spotchange.cluster import Resumption, ShardedLines
    from spotchange.locks import one_writer

    with one_writer(place):
        places = [place, *(place.with_name(f"{place.name}.{number}") for number in range(2, parts + 1))]
        kept = [Resumption(shards=ShardedLines(each), told=tell) for each in places]
        yield kept
        for each in kept:
            each.shards.remove()


def tell(text: str) -> None:
    """One line about the run."""
    notes().print(text, style="dim", markup=False, soft_wrap=True)


def tell_workers(workers: int) -> None:
    """One line when the cluster is there."""
    notes().print(f"ray: {workers} worker{'s' * (workers > 1)}", style="dim")


def rate(what: str) -> ProgressColumn:
    """A column of a progress bar: how many a second."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:.1f} {what}/s", style="dim")

    return Rate()
