"""The rebuilt systems agree with the published programs: layout, intermediate values, losses, greedy ids.

Further oracle files (other seeds, other inputs) are compared too: SPOTCHANGE_ORACLES=FOLDER pytest ...
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from oracle import Oracle, check, disagreements

OWN = Path(__file__).parent / "oracles"
ELSEWHERE = os.environ.get("SPOTCHANGE_ORACLES")
FILES = sorted(OWN.glob("*.json")) + (sorted(Path(ELSEWHERE).glob("*.json")) if ELSEWHERE else [])


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=f"{path.parent.name}/{path.stem}", marks=[pytest.mark.slow] if "chg2cap" in path.stem else []
        )
        for path in FILES
    ],
)
def test_everything_in_an_oracle_is_reproduced(path: Path) -> None:
    assert check(path) == []


def test_the_comparison_can_fail() -> None:
    expected = {"a": {"shape": [2], "sum": 3.0, "norm": 5**0.5, "cos_sum": 1 + 2 * 0.5403023, "min": 1.0, "max": 2.0}}
    expected["a"]["rows"] = {"0": [1.0], "1": [2.0]}
    right = torch.tensor([1.0, 2.0])
    assert list(disagreements(expected, {"a": right}, 1e-5)) == []
    assert list(disagreements(expected, {"a": right.flip(0)}, 1e-5))
    assert list(disagreements(expected, {"a": right + torch.tensor([1e-3, 0.0])}, 1e-5))
    assert list(disagreements(expected, {}, 1e-5)) == ["/a was not computed"]
    assert list(disagreements({"ids": [[1, 2]]}, {"ids": torch.tensor([[1, 3]])}, 1e-5))


def test_seeds_are_read_from_the_oracle() -> None:
    oracle = Oracle(OWN / "duda.json")
    usual = oracle.state()["change_detector.att.weight"], oracle.features()["before"]
    oracle.about = oracle.about.replace("seeded 1000 + i", "seeded 5000 + i").replace("seeded 7,", "seeded 70,")
    others = oracle.state()["change_detector.att.weight"], oracle.features()["before"]
    assert not any(torch.equal(one, other) for one, other in zip(usual, others, strict=True))


def test_names_that_end_in_sizes_are_found_with_other_sizes() -> None:
    values = {"mlp_before_588_512": torch.ones(1), "layer_1": torch.ones(1), "layer_2": torch.ones(1)}
    expected = {"shape": [1], "sum": 1.0, "norm": 1.0, "cos_sum": 1.0, "min": 1.0, "max": 1.0, "rows": {}}
    assert list(disagreements({"mlp_before_392_512": expected, "layer_2": expected}, values, 1e-5)) == []
    assert list(disagreements({"layer_3": expected}, values, 1e-5)) == ["/layer_3 was not computed"]
