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


Decoding = Annotated[Decode, typer.Option("--decode", help="greedy, as the papers decode, or beam.")]
Beam = Annotated[int, typer.Option("--beam", min=1, max=32, help="Sentences kept while searching.")]
MaxWords = Annotated[int, typer.Option("--max-words", min=1, max=512, help="Longest caption, in tokens.")]
