"""Oracle files of the published programs: their seeded weights and inputs, and the comparison with everything in them.

An oracle tells how it was made in words (`about`); seeds and factors are read from there, so that a file made with
others needs no change here. Print what disagrees: python tests/models/baselines/oracle.py FILE...
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

LEAST_TOLERANCE = 1e-5
PRINTED = 5e-7  # numbers are written with eight digits, entries of rows with seven


class Oracle:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self.about: str = self.content["about"]
        self.system: str = self.content["system"]
        self.hyper: dict[str, Any] = self.content["hyper"]
        self.inputs: dict[str, Any] = self.content["inputs"]
        self.outputs: dict[str, Any] = self.content["outputs"]
        self.keys: dict[str, list[int]] = self.content["keys"]
        self.tolerance = max(LEAST_TOLERANCE, 20 * self.content["fp64_rel_dev"]["value"])

    def state(self) -> dict[str, Tensor]:
        """The seeded weights."""
        found = re.search(r"generator seeded (\d+) \+ i\) \* ([\d.]+)", self.about)
        assert found, "the oracle does not say how its weights were drawn"
        first, usual = int(found[1]), float(found[2])
        state = {}
        for number, key in enumerate(sorted(self.keys)):
            if key in self.content["fixed"]:
                state[key] = torch.full(self.keys[key], self.content["fixed"][key])
                continue
            scale = next((v for k, v in self.content["scales"].items() if re.search(k, key)), usual)
            value = drawn(first + number, self.keys[key]) * scale
            state[key] = value + 1 if key.endswith(tuple(self.content["norm_suffixes"])) else value
        return state

    def features(self) -> dict[str, Tensor]:
        """`before`, `after` and, where there is one, `distractor`, as the file shapes them."""
        found = re.search(r"before = \|randn\(([\d,]+)\)\| seeded (\d+), after seeded (\d+)", self.about)
        assert found, "the oracle does not say how its inputs were drawn"
        shape = [int(each) for each in found[1].split(",")]
        seeds = {"before": int(found[2]), "after": int(found[3])}
        other = re.search(r"distractor seeded (\d+)", self.about)
        if other:
            seeds["distractor"] = int(other[1])
        factor = self.inputs.get("feature_factor", 1.0)
        return {name: drawn(seed, shape).abs() * factor for name, seed in seeds.items()}

    def randn(self, name: str) -> Tensor:
        """A further input that `about` describes as `NAME = randn(SHAPE) seeded N times FACTOR` (or just as seeded)."""
        pattern = rf"{name}(?: = randn\(([\d,]+)\))? seeded (\d+)(?: times ([\d.]+\d))?"
        found = re.search(pattern, self.about)
        assert found, f"the oracle does not say how {name} was drawn"
        shape = found[1] or re.search(r"l_before = randn\(([\d,]+)\)", self.about)[1]  # type: ignore[index]
        return drawn(int(found[2]), [int(each) for each in shape.split(",")]) * float(found[3] or 1)

    def ids(self, name: str, width: int | None = None) -> Tensor:
        """Label rows, zero-padded to `width`; `name` may leave out how many columns are shown."""
        rows = torch.tensor(self.inputs[_named(name, self.inputs) or name])
        return rows if width is None else nn.functional.pad(rows, (0, width - rows.shape[1]))


def drawn(seed: int, shape: list[int]) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def take_weights(oracle: Oracle, module: nn.Module) -> None:
    """Give `module` the oracle's weights; names and shapes must be the oracle's own."""
    own = {name: list(value.shape) for name, value in module.named_parameters()}
    problems = [f"{name} is missing" for name in oracle.keys if name not in own]
    problems += [f"{name} is not published" for name in own if name not in oracle.keys]
    problems += [
        f"{name}: {own[name]} instead of {shape}"
        for name, shape in oracle.keys.items()
        if name in own and own[name] != shape
    ]
    assert not problems, "; ".join(problems[:8])
    count = sum(value.numel() for value in module.parameters())
    assert count == oracle.content["parameters"]
    with torch.no_grad():
        state = oracle.state()
        for name, value in module.named_parameters():
            value.copy_(state[name])


def disagreements(expected: Any, found: Any, tolerance: float, path: str = "") -> Iterator[str]:
    """Everything in `expected` that `found` lacks or has otherwise."""
    if isinstance(expected, dict) and "shape" not in expected:
        for name, inner in expected.items():
            computed = _named(name, found)
            if computed is None:
                yield f"{path}/{name} was not computed"
            else:
                yield from disagreements(inner, found[computed], tolerance, f"{path}/{name}")
    elif isinstance(expected, dict):
        yield from _tensor_disagreements(expected, found.detach().double().numpy(), tolerance, path)
    elif isinstance(expected, list):
        given = found.tolist() if isinstance(found, Tensor) else found
        if given != expected:
            yield f"{path}: {given} instead of {expected}"
    elif abs(float(found) - expected) > _loss_tolerance(path, expected, tolerance):
        yield f"{path}: {float(found):.8g} instead of {expected:.8g}"


def _named(name: str, found: Any) -> str | None:
    """The name of a value in `found`; names that end in sizes ("mlp_before_588_512") may end in others there."""
    if not isinstance(found, dict):
        return None
    if name in found:
        return name
    alike = [other for other in found if _stem(other) == _stem(name)]
    return alike[0] if len(alike) == 1 else None


def _stem(name: str) -> str:
    return re.sub(r"(_(\d+|[A-Z]))+$", "", name)


def _loss_tolerance(path: str, expected: float, tolerance: float) -> float:
    # DIRL's own note: its contrastive loss is nearly saturated, and is compared absolutely.
    return 2e-3 if "ccr" in path else tolerance * max(1.0, abs(expected))


def _tensor_disagreements(expected: dict[str, Any], found: Any, tolerance: float, path: str) -> Iterator[str]:
    if list(found.shape) != expected["shape"]:
        yield f"{path}: shape {list(found.shape)} instead of {expected['shape']}"
        return
    largest = max(abs(expected["min"]), abs(expected["max"]))
    entry = tolerance * largest + PRINTED * largest
    flat = found.ravel()
    over_all = 2 * entry * np.sqrt(flat.size)
    sums = {
        "sum": (flat.sum(), over_all),
        "norm": (np.linalg.norm(flat), over_all),
        "cos_sum": ((flat * np.cos(np.arange(flat.size))).sum(), over_all),
        "min": (flat.min(), entry),
        "max": (flat.max(), entry),
    }
    for name, (value, allowed) in sums.items():
        if not abs(value - expected[name]) <= allowed + PRINTED * abs(expected[name]):
            yield f"{path}.{name}: {value:.8g} instead of {expected[name]:.8g} (allowed {allowed:.2g})"
    for place, row in expected["rows"].items():
        values = found[tuple(int(each) for each in place.split(","))].ravel()[: len(row)]
        apart = np.abs(values - np.array(row)).max()
        if not apart <= entry:
            yield f"{path}[{place}]: {apart:.2g} apart (allowed {entry:.2g})"


def check(path: Path) -> list[str]:
    """Rebuild the oracle's system with its weights and say what disagrees."""
    from rebuilt import REBUILT

    oracle = Oracle(path)
    if oracle.system not in REBUILT:
        return [f"nothing rebuilds {oracle.system}"]
    with torch.inference_mode():
        return list(disagreements(oracle.outputs, REBUILT[oracle.system](oracle), oracle.tolerance))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        problems = check(Path(name))
        sys.stdout.write("\n".join([f"{name}: {len(problems)} disagreements", *problems]) + "\n")
