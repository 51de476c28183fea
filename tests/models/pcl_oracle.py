"""The numbers of the published IDC-PCL program, and the seeded checkpoints and inputs they belong to.

SPOTCHANGE_IDC_PCL_ORACLE names another file of the same form (other seeds, other sizes); seeds are read from its text.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import VisualState
from spotchange.models.weights.published.importing import import_model

ORACLE: dict[str, Any] = json.loads(
    Path(os.environ.get("SPOTCHANGE_IDC_PCL_ORACLE", Path(__file__).with_name("idc_pcl_parity.json"))).read_text()
)
PLAIN, SHARP = (float(number) for number in re.findall(r"0\.\d+", ORACLE["about"])[:2])
_FIRST_SEED = int(re.search(r"seeded (\d+) \+ i", ORACLE["about"])[1])  # type: ignore[index]
IMAGE_SEEDS = tuple(map(int, re.search(r"seeded (\d+), image 2 the same seeded (\d+)", ORACLE["about"]).groups()))  # type: ignore[union-attr]
MODELS: dict[str, Any] = ORACLE["models"]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def checkpoint(name: str, scale: float) -> dict[str, Tensor]:
    """The recipe of the oracle: seeded weights, LayerNorms around one, tied names sharing storage."""
    keys = MODELS[name]["keys"]
    state = {}
    for number, key in enumerate(sorted(keys)):
        drawn = torch.randn(keys[key], generator=generator(_FIRST_SEED + number))
        # Norms vary around one by the first scale, at the second too.
        is_norm = key.endswith(tuple(ORACLE["layernorm_suffixes"]))
        state[key] = 1 + drawn * PLAIN if is_norm else drawn * scale
    return state | {tied: state[of] for tied, of in MODELS[name]["tied"].items()}


def imported(name: str, scale: float, folder: Path) -> IdcPcl:
    path = folder / f"{name}.pt"
    torch.save(checkpoint(name, scale), path)
    heads = MODELS["pretrain_clevr"]["config"].get("heads")  # all of a file have as many
    model = import_model(path, heads=heads).model
    assert isinstance(model, IdcPcl)
    return model


def features(pairs: int = 2) -> Tensor:
    """(pairs, 2, cells, channels)."""
    config = MODELS["pretrain_clevr"]["config"]
    both = [torch.randn(pairs, 49, config["feature"], generator=generator(seed)).abs() for seed in IMAGE_SEEDS]
    return torch.stack(both, dim=1)


def padded(rows: list[list[int]], name: str, *, fill: int = 0) -> Tensor:
    """Ids or labels to the model's length."""
    length = MODELS[name]["config"]["max_len"]
    return torch.tensor([row + [fill] * (length - len(row)) for row in rows])


def near(got: Tensor | float, want: Any) -> None:
    """The oracle's own tolerance, entry by entry."""
    got, want = torch.as_tensor(got).detach().double(), torch.as_tensor(want, dtype=torch.float64)
    assert got.shape == want.shape
    worst = ((got - want).abs() - 2e-4 * (1 + want.abs())).max()
    assert worst <= 0, f"off by {float((got - want).abs().max()):.2e}"


def same_tensor(got: Tensor, want: dict[str, Any]) -> None:
    """A tensor against its description: first entries of some rows, sum, norms."""
    assert list(got.shape) == want["shape"]
    for row, values in want["first8"].items():
        near(got[:, int(row), :8], values)
    wide = got.detach().double()
    near(wide.norm(), want["norm"])
    assert abs(float(wide.sum()) - want["sum"]) <= 1e-6 * want["abs_sum"] + 1e-4
    assert abs(float(wide.abs().sum()) / want["abs_sum"] - 1) <= 1e-5


def one_or_two(model: IdcPcl, name: str) -> tuple[Tensor, VisualState]:
    """The cells a model of this name reads (CUB: one image), and what it sees in them."""
    cells = features()[:, :1] if name.endswith("cub") else features()
    return cells, model.encode_cells(cells)
