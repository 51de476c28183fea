"""How words are chosen, as commands offer it."""

from __future__ import annotations

from enum import StrEnum


class Decode(StrEnum):
    """The published systems decode greedily; ours keeps several sentences and takes the best."""

    GREEDY = "greedy"
    BEAM = "beam"
