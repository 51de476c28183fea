"""Settings of an ablation: cells that differ in named keys only, each a chain of stages, over several seeds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from spotchange.config.base import Settings
from spotchange.errors import InputError

PREVIOUS = "previous"  # as stage.start_from: the stage before in the same chain, or the shared one


class CellSettings(Settings):
    """One row of the table."""

    stages: list[str] = Field(min_length=1)
    """Stages run one after the other, by their names in `stages`."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """What is different: `STAGE.key` (or `key` for all its stages) to value."""
    choose: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Settings to choose between, key to values: the first seed is run with every value, the others with the one whose
    best checkpoint validated best. Never chosen by test pairs."""
    seeds: list[int] | None = Field(default=None, min_length=1)
    """Where a cell is worth more, or fewer, than the others; null: the table's."""


class Ablation(Settings):
    """A table of experiments."""

    name: str
    seeds: list[int] = Field(default=[1, 2], min_length=1)
    shared: str | None = None
    """Stage that is run once and that every cell starts from: the role CLIP's weights play in the papers."""
    start: str | None = None
    """A model folder that every cell starts from, in the place of a shared stage."""
    equal_budget: bool = True
    """Every cell sees as many pairs in all; false: cells are trained until validation stops them, or cost is what is
    compared."""
    stages: dict[str, dict[str, Any]]
    """Recipes by name; `stage.start_from: previous` takes the best checkpoint of the stage before."""
    cells: dict[str, CellSettings] = Field(min_length=1)
    columns: list[str] = Field(default=["R@1", "CIDEr-D"], min_length=1)
    """Numbers shown, each from the last stage of a cell that measures it: on the test pairs where the stage has any
    (`validation.test_pairs`), else on validation."""
    compare: list[tuple[str, str]] = Field(default_factory=list)
    """Pairs of cells to compare seed by seed, in every column: second minus first."""
    correlate: tuple[str, str] | None = None
    """Two columns whose rank correlation over the cells is printed."""

    def seeds_of(self, cell: str) -> list[int]:
        """Seeds that a cell is run with."""
        return self.cells[cell].seeds or self.seeds

    def only(self, cells: list[str]) -> Ablation:
        """The table with just these cells, and the comparisons among them; all without a name."""
        unknown = [name for name in cells if name not in self.cells]
        if unknown:
            raise InputError(f"no cell is called {', '.join(unknown)}", hint=f"there are: {', '.join(self.cells)}")
        kept = {name: self.cells[name] for name in cells} or self.cells
        compare = [pair for pair in self.compare if set(pair) <= set(kept)]
        return self.model_copy(update={"cells": kept, "compare": compare})

    @model_validator(mode="after")
    def _check_names(self) -> Ablation:
        used = {stage for cell in self.cells.values() for stage in cell.stages}
        if self.shared is not None:
            used.add(self.shared)
        unknown = sorted(used - set(self.stages))
        if unknown:
            raise ValueError(f"no stage is called {', '.join(unknown)}; there are: {', '.join(self.stages)}")
        if self.shared is not None and self.start is not None:
            raise ValueError("shared and start: one of them is what cells start from")
        missing = sorted({cell for pair in self.compare for cell in pair} - set(self.cells))
        if missing:
            raise ValueError(f"compare: no cell is called {', '.join(missing)}")
        for column in self.correlate or ():
            if column not in self.columns:
                raise ValueError(f"correlate: '{column}' is not one of the columns")
        return self
