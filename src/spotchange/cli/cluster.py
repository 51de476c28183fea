"""`--engine`, `--address` and `--gpus-per-worker`, the same for every verb that computes many pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.progress import ProgressColumn, Task
from rich.text import Text

from spotchange.cli.output import notes
from spotchange.errors import InputError

if TYPE_CHECKING:
    from spotchange.cluster import ClusterOptions

Engine = Annotated[Literal["local", "ray"], typer.Option("--engine", help="local, or ray: workers of a Ray cluster.")]
Address = Annotated[
    str | None, typer.Option("--address", help="Of the Ray cluster, HOST:PORT; without it: one on this machine.")
]
GpusPerWorker = Annotated[
    float, typer.Option("--gpus-per-worker", min=0, help="GPUs a worker of the cluster takes, such as 1 or 0.5.")
]


def cluster_of(
    engine: str, address: str | None, workers: int | None = None, gpus_per_worker: float = 0.0
) -> ClusterOptions | None:
    """The cluster that was asked for; None: this process alone."""
    if engine == "local":
        if address is not None or gpus_per_worker:
            raise InputError("--address and --gpus-per-worker need --engine ray")
        return None
    from spotchange.cluster import ClusterOptions, check_reachable

    options = ClusterOptions(address=address, workers=workers, gpus_per_worker=gpus_per_worker)
    check_reachable(options)
    return options


def tell_workers(workers: int) -> None:
    """One line when the cluster is there."""
    notes().print(f"ray: {workers} worker{'s' * (workers > 1)}", style="dim")


def rate(what: str) -> ProgressColumn:
    """A column of a progress bar: how many a second."""
    return _Rate(what)


class _Rate(ProgressColumn):
    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f} {self.what}/s", style="dim")
