"""`--device`, the same for every verb."""

from __future__ import annotations

from typing import Annotated

import typer

from spotchange.errors import InputError

Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]


def pick_device(name: str) -> str:
    """A device that is there; auto prefers CUDA."""
    if name == "cpu":
        return name
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.partition(":")[0] != "cuda":
        raise InputError(f"unknown device '{name}'", hint="use auto, cpu, cuda or cuda:N")
    if not torch.cuda.is_available():
        raise InputError("there is no CUDA device here", hint="use --device cpu")
    return name
