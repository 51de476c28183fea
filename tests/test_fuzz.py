"""Everything that ever got through a parser is tried again, and a few fresh mutations with it."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FUZZ = Path(__file__).parents[1] / "fuzz"
NAMES = ("images", "manifests", "recipes", "model_folders", "checkpoints", "shards", "score_files")
FRESH = 25


@pytest.fixture(scope="module")
def fuzz() -> Iterator[ModuleType]:
    sys.path.insert(0, str(FUZZ))
    import run

    yield run
    sys.path.remove(str(FUZZ))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def test_every_parser_has_a_target_and_seeds(fuzz: ModuleType) -> None:
    assert set(fuzz.TARGETS) == set(NAMES)
    assert all(fuzz.seeds(name) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_gets_through(fuzz: ModuleType, folder: Path, name: str) -> None:
    points = fuzz.starting_points(name, folder)
    chance = random.Random(name)
    small = [each for each in points if len(each) < 200_000]
    fresh = [fuzz.mutated(chance.choice(small), small, chance) for _ in range(FRESH)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what libraries say about damaged files is not the point
        for data in [*fuzz.seeds(name), *points, *fresh]:
            with fuzz.in_time():
                fuzz.TARGETS[name](data, folder)


def test_a_hole_would_be_found(fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def hole(data: bytes, folder: Path) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(fuzz.TARGETS, "recipes", hole)
    monkeypatch.setattr(fuzz, "HERE", tmp_path)
    _, found = fuzz.run("recipes", 0.2, 0)
    assert found
    assert found[0].is_file()
