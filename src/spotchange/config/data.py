"""Settings of data sets: the names of scoring protocols."""

from __future__ import annotations

from typing import Literal

ProtocolName = Literal[
    "pairs", "clevr-change", "spot-the-diff-single", "spot-the-diff-multi", "birds-to-words", "levir-cc"
]
