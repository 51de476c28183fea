"""How words are chosen and scored, as commands offer it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

Meteor = Annotated[
    bool | None,
    typer.Option("--meteor/--no-meteor", help="METEOR, which takes longest; default: where it is installed."),
]


class Decode(StrEnum):
    """The published systems decode greedily; ours keeps several sentences and takes the best."""

    GREEDY = "greedy"
    BEAM = "beam"
