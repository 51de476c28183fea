"""What a finished run left behind that a leaderboard needs: captions, recipe, log, number of weights."""

from __future__ import annotations

import json
import statistics
import struct
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import yaml

from spotchange.errors import DataError
from spotchange.language import says_no_change
from spotchange.models.weights.description import BEST

_NOT_LEARNT = ("running_mean", "running_var", "num_batches_tracked", "kind_of_word", "tag_of_word", "relation_of")


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """One system, one seed."""

    folder: Path
    system: str
    """Its name in recipes."""
    title: str
    """Its name in tables."""
    published: str | None
    """Its name among the published rows."""
    faithful: bool
    seed: int
    rate: float
    captions: dict[str, str]
    references: dict[str, list[str]]
    kinds: dict[str, str | None]
    facts: dict[str, bool]
    """Whether each caption is true; empty where nobody knows."""
    parameters: int
    """Weights that learn, the frozen network not counted."""
    validation: float
    """CIDEr-D of the best checkpoint on the validation pairs, by which learning rates are chosen."""
    pairs_per_second: float | None
    """In training, as logged: other runs may have shared the device."""
    minutes: float | None
    pairs: int | None
    """Trained on, repeated ones counted."""

    def saying(self, caption: str) -> TrainedRun:
        """The same pairs with one sentence for all of them; it is known to be true or false if it denies a change."""
        none = {name: kind == "none" for name, kind in self.kinds.items()}
        facts = none if self.facts and says_no_change(caption) else {}
        return replace(self, title="constant caption", captions=dict.fromkeys(self.captions, caption), facts=facts)


def read_run(folder: Path) -> TrainedRun:
    """Read a run's folder."""
    rows = [_row(line, folder) for line in (folder / "captions.jsonl").read_text(encoding="utf-8").splitlines()]
    recipe = _recipe(folder)
    name = ((recipe.get("model") or {}).get("baseline") or {}).get("system")
    title, published, faithful = _known(name) if name else (str(recipe.get("name", folder.name)), None, True)
    log = _log(folder)
    validation = [line for line in log if line.get("kind") == "validation"]
    speeds = [line["pairs_per_second"] for line in log if "pairs_per_second" in line]
    ends = [line for line in log if line.get("kind") == "end"]
    facts = {row["id"]: row["fact"] for row in rows}
    return TrainedRun(
        folder=folder,
        system=name or title,
        title=title,
        published=published,
        faithful=faithful,
        seed=int(recipe.get("seed", 0)),
        rate=float((recipe.get("optimizer") or {}).get("lr", 0.0)),
        captions={row["id"]: row["caption"] for row in rows},
        references={row["id"]: row["references"] for row in rows},
        kinds={row["id"]: row["change_type"] for row in rows},
        facts={} if None in facts.values() else facts,
        parameters=_parameters(log) or count_parameters(folder / BEST),
        validation=max((line["CIDEr-D"] for line in validation if "CIDEr-D" in line), default=float("-inf")),
        pairs_per_second=statistics.median(speeds) if speeds else None,
        minutes=ends[-1].get("minutes") if ends else None,
        pairs=ends[-1]["step"] * recipe["stage"]["pairs_per_step"] if ends and "stage" in recipe else None,
    )


def _parameters(log: list[dict[str, Any]]) -> int | None:
    """As the run said when it began."""
    return next((line["parameters"] for line in log if "parameters" in line), None)


def _known(system: str) -> tuple[str, str | None, bool]:
    from spotchange.models.baselines.build import SYSTEMS  # here: it loads torch

    if system not in SYSTEMS:
        return system, None, True
    kind = SYSTEMS[system]
    return kind.title, kind.published, kind.faithful()


def count_parameters(folder: Path) -> int:
    """Weights in a model folder, from the headers of its files, without the frozen network and tables of labels."""
    total = 0
    for path in folder.glob("*.safetensors"):
        if path.name.startswith("training_heads"):
            continue
        with path.open("rb") as stream:
            (size,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(size))
        for name, facts in header.items():
            if name == "__metadata__" or name.startswith("encoder.network.") or name.endswith(_NOT_LEARNT):
                continue
            total += prod(facts["shape"])
    return total


def _row(line: str, folder: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
        return {name: row[name] for name in ("id", "caption", "references", "change_type", "fact")}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / 'captions.jsonl'} is damaged: {error}") from error


def _recipe(folder: Path) -> dict[str, Any]:
    path = folder / BEST / "recipe.yaml"
    found = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _log(folder: Path) -> list[dict[str, Any]]:
    path = folder / "log.jsonl"
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            lines.append(json.loads(text))
        except ValueError:  # a killed run leaves half a line
            continue
    return lines
