"""An ablation's plan, its resuming and its table."""

from __future__ import annotations

import json
import math
import runpy
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import torch
import yaml

from spotchange.config.ablation import Ablation
from spotchange.config.model import ModelSettings
from spotchange.config.recipes import RECIPES
from spotchange.config.training import Recipe
from spotchange.errors import ConfigError, InputError
from spotchange.language.vocabulary import build_tokenizer
from spotchange.locks import one_writer
from spotchange.models.build import build_model, settings_for
from spotchange.models.weights.bundled import BUNDLED, bundled_folder
from spotchange.models.weights.description import read_settings
from spotchange.models.weights.transfer import refit, take_weights
from spotchange.training.ablation.reuse import check_finished
from spotchange.training.ablation.table import (
    SHARED,
    CellResult,
    as_json,
    check_budget,
    collect,
    columns_agree,
    plan,
    run_jobs,
)
from spotchange.training.objectives.build import build_objective
from spotchange.training.optimizers import parameter_groups
from spotchange.training.stopping import StopRequest

FOLDER = RECIPES / "ablations"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.fixture(autouse=True)
def nothing_to_collect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretended runs hold no weights, and a worker that has imported Ray and torch collects for half a second a run."""
    monkeypatch.setattr("gc.collect", lambda: 0)


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_of_every_ablation_is_valid(name: str) -> None:
    path = FOLDER / f"{name}.yaml"
    assert path.read_text().startswith(f"# spotchange ablate {name} ")
    ablation = Ablation.from_yaml(path)
    jobs = plan(ablation, Path("out"))
    assert len({job.out for job in jobs}) == len(jobs)
    stages = 0
    for cell, settings in ablation.cells.items():
        tried = math.prod(len(values) for values in settings.choose.values())
        runs = len(ablation.seeds_of(cell)) if tried == 1 else tried  # the others wait for what the first seed chooses
        stages += runs * len(settings.stages)
    assert len(jobs) == stages + (ablation.shared is not None)


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_has_the_same_budget_unless_said_otherwise(name: str) -> None:
    ablation = Ablation.from_yaml(FOLDER / f"{name}.yaml")
    jobs = plan(ablation, Path("out"))
    check_budget(ablation, jobs)
    first = next(job for job in jobs if job.chain != "shared")
    longer = first.recipe.model_copy(
        update={"stage": first.recipe.stage.model_copy(update={"steps": first.recipe.stage.steps + 1})}
    )
    unequal = [replace(job, recipe=longer) if job is first else job for job in jobs]
    check_budget(ablation.model_copy(update={"equal_budget": False}), unequal)
    if len({job.chain for job in jobs} - {"shared"}) > 1:
        with pytest.raises(ConfigError, match="different numbers of pairs"):
            check_budget(ablation.model_copy(update={"equal_budget": True}), unequal)


@pytest.mark.parametrize("name", NAMES)
def test_every_job_can_begin(name: str) -> None:
    """Weights that it starts from fit its model, and its rates and objective name parts that the model has."""
    ablation = Ablation.from_yaml(FOLDER / f"{name}.yaml")
    made = {BUNDLED: read_settings(bundled_folder()), str(ablation.start): ModelSettings.model_validate("scene-clip")}
    for job in plan(ablation, Path("out")):
        if job.recipe.seed == ablation.seeds[0]:
            made[str(job.out / "best")] = begun(job.recipe, made)


@pytest.mark.parametrize("name", NAMES)
def test_every_job_can_be_tried_in_small(name: str) -> None:
    """Whatever a cell changes: a run of two steps must not become one of three thousand."""
    program = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "ablation_small.py"), run_name="read only")
    for job in plan(Ablation.from_yaml(FOLDER / f"{name}.yaml"), Path("out")):
        tried = program["small"](job.recipe, Path("small"))
        assert (tried.stage.steps, tried.stage.pairs_per_step, tried.stage.compile) == (2, 4, False)
        assert (tried.model, tried.optimizer) == (job.recipe.model, job.recipe.optimizer)


def begun(recipe: Recipe, made: dict[str, ModelSettings]) -> ModelSettings:
    """Set a job up as training does, without data or values."""
    start = None if recipe.stage.start_from is None else made[recipe.stage.start_from]
    settings = recipe.model if recipe.model is not None else start
    assert isinstance(settings, ModelSettings)
    vision = settings.vision.model_copy(update={"resnet": None})  # no weights of its own
    settings = settings_for(settings.model_copy(update={"vision": vision}), build_tokenizer())
    parts = recipe.stage.start_parts or ("*",)
    with torch.device("meta"):
        model = build_model(settings)
        if start is not None:
            state = refit(build_model(settings_for(start, build_tokenizer())).state_dict(), start, settings)
            state = {name: value for name, value in state.items() if any(fnmatchcase(name, each) for each in parts)}
            assert take_weights(model, state, source=str(recipe.stage.start_from)).taken
    objective = build_objective(model, recipe.stage.objective, mean=(0.5,) * 3, std=(0.5,) * 3, paired=True)
    assert parameter_groups(objective, recipe.optimizer)
    return settings


def test_cells_differ_from_their_stage_in_the_named_keys_only() -> None:
    ablation = Ablation.from_yaml(FOLDER / "clip4idc.yaml")
    recipes = [job.recipe for job in plan(ablation, Path("out")) if "adapt, seed 1" in job.label]
    plain = []
    for recipe in recipes:
        values = recipe.model_dump()
        values["model"]["vision"].pop("n_inter")
        plain.append(values)
    assert len(recipes) == 4
    assert all(values == plain[0] for values in plain)
    assert [recipe.model.vision.n_inter for recipe in recipes] == [3, 6, 1, 0]


def test_unknown_stage_is_refused() -> None:
    with pytest.raises(ConfigError, match="no stage is called adopt"):
        Ablation.from_mapping({"name": "x", "stages": {}, "cells": {"a": {"stages": ["adopt"]}}}, source="x")


class FakeTraining:
    """Writes what a run writes; fails or stops where told."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, bool]] = []
        self.stop_at: int | None = None

    def __call__(self, recipe, *, out: Path, resume: bool, stop: StopRequest, device: str) -> dict:
        self.ran.append((out.as_posix(), resume))
        (out / "last").mkdir(parents=True, exist_ok=True)
        n_inter = recipe.model.vision.inter
        line = {"kind": "validation", "step": 4, "R@1": 0.1 * n_inter, "CIDEr-D": 1.0 + recipe.seed + n_inter}
        (out / "log.jsonl").write_text(json.dumps(line) + "\n")
        finished = len(self.ran) != self.stop_at
        return {"finished": finished, "best_step": 4, "step": 4, "metric": "R@1", "best": line["R@1"]}


def test_finished_runs_are_not_run_again_and_stopped_ones_go_on(tmp_path: Path) -> None:
    ablation = Ablation.from_yaml(FOLDER / "smoke.yaml")
    jobs, training = plan(ablation, tmp_path), FakeTraining()
    training.stop_at = 3
    assert not run_jobs(jobs, training, stop=StopRequest(), device="cpu")
    assert len(training.ran) == 3
    training.stop_at = None
    assert run_jobs(jobs, training, stop=StopRequest(), device="cpu")
    assert training.ran[3] == (training.ran[2][0], True)  # the stopped one is resumed
    assert len(training.ran) == len(jobs) + 1
    assert run_jobs(jobs, training, stop=StopRequest(), device="cpu")
    assert len(training.ran) == len(jobs) + 1


def test_a_chain_whose_first_stage_kept_no_weights_begins_anew(tmp_path: Path) -> None:
    """An archive holds figures only; a table that is finished stays as it is."""
    ablation = Ablation.from_yaml(FOLDER / "adaptation.yaml", ["seeds=[1,2]"]).only(["9+3 adapted"])
    jobs, training = plan(ablation, tmp_path), FakeTraining()
    assert run_jobs(jobs, training, stop=StopRequest(), device="cpu")
    for job in jobs:
        (job.out / "best").mkdir()
        (job.out / "best" / "recipe.yaml").touch()
    (jobs[3].out / "summary.json").unlink()  # the second stage of seed 2
    training.ran.clear()
    assert run_jobs(jobs, training, stop=StopRequest(), device="cpu")
    assert [path for path, _ in training.ran] == [job.out.as_posix() for job in jobs[2:]]
    assert training.ran[0][1] is False  # from nothing


def test_a_run_that_was_killed_before_it_saved_begins_anew(tmp_path: Path) -> None:
    """Training refuses a folder with weights and nothing to go on from: the cell would never come."""
    ablation = Ablation.from_yaml(FOLDER / "adaptation.yaml", ["seeds=[1]"]).only(["9+3 adapted"])
    jobs, training = plan(ablation, tmp_path), FakeTraining()
    best = jobs[0].out / "best" / "recipe.yaml"
    best.parent.mkdir(parents=True)
    best.touch()
    with one_writer(jobs[0].out), pytest.raises(InputError, match="is being written by process"):
        run_jobs(jobs, training, stop=StopRequest(), device="cpu")
    assert best.exists()  # of a run that is still under way
    assert run_jobs(jobs, training, stop=StopRequest(), device="cpu")
    assert training.ran == [(job.out.as_posix(), False) for job in jobs]
    assert not best.exists()


def test_runs_of_another_recipe_do_not_stand_in_a_table(tmp_path: Path) -> None:
    ablation = Ablation.from_yaml(FOLDER / "smoke.yaml")
    jobs = plan(ablation, tmp_path)
    run_jobs(jobs, FakeTraining(), stop=StopRequest(), device="cpu")
    for job in jobs:
        (job.out / "best").mkdir(parents=True, exist_ok=True)
        (job.out / "best" / "recipe.yaml").write_text(job.recipe.to_yaml())
    check_finished(jobs)
    moved = tmp_path.rename(tmp_path.with_name("elsewhere"))
    check_finished(plan(ablation, moved))  # begins from folders of other names
    check_finished(plan(Ablation.from_yaml(FOLDER / "smoke.yaml", ["stages.caption.stage.cuda_graph=true"]), moved))
    longer = plan(Ablation.from_yaml(FOLDER / "smoke.yaml", ["stages.caption.stage.steps=77"]), moved)
    with pytest.raises(InputError, match=r"trained by another recipe: stage\.steps \d+ \(now 77\)$"):
        check_finished(longer)


def test_no_run_is_begun_when_time_is_up(tmp_path: Path) -> None:
    training = FakeTraining()
    jobs = plan(Ablation.from_yaml(FOLDER / "smoke.yaml"), tmp_path)
    assert not run_jobs(jobs, training, stop=StopRequest(minutes=0.0), device="cpu")
    assert not training.ran


def test_table_has_mean_spread_and_correlation(tmp_path: Path) -> None:
    ablation = Ablation.from_yaml(FOLDER / "clip4idc.yaml")
    run_jobs(plan(ablation, tmp_path), FakeTraining(), stop=StopRequest(), device="cpu")
    table = as_json(ablation, collect(ablation, tmp_path))
    by_name = {cell["cell"]: cell for cell in table["cells"]}
    assert list(by_name)[-4:] == ["6/3", "3/6", "8/1", "9/0"]
    deepest = by_name["3/6"]
    assert deepest["seeds"]["CIDEr-D"] == [8.0, 9.0]
    assert deepest["mean"]["CIDEr-D"] == 8.5
    assert deepest["spread"]["CIDEr-D"] == pytest.approx(0.5**0.5)
    assert table["rank_correlation"] == pytest.approx(1.0)


def test_the_first_seed_chooses_what_the_others_are_run_with(tmp_path: Path) -> None:
    values = yaml.safe_load((FOLDER / "smoke.yaml").read_text()) | {"seeds": [1, 2, 3]}
    name, cell = next((n, c) for n, c in values["cells"].items() if len(c["stages"]) == 1)
    values["cells"] = {name: cell | {"choose": {"model.vision.n_inter": [1, 0]}}}
    ablation = Ablation.from_mapping(values, source="test")
    first = [job for job in plan(ablation, tmp_path) if job.chain != SHARED]
    assert [job.recipe.model.vision.n_inter for job in first] == [1, 0]
    assert {job.recipe.seed for job in first} == {1}
    assert len({job.chain for job in first}) == 2
    run_jobs(plan(ablation, tmp_path), FakeTraining(), stop=StopRequest(), device="cpu")
    then = [job for job in plan(ablation, tmp_path) if job.summary is None]
    assert [(job.recipe.seed, job.recipe.model.vision.n_inter) for job in then] == [(2, 1), (3, 1)]  # R@1 was better
    run_jobs(plan(ablation, tmp_path), FakeTraining(), stop=StopRequest(), device="cpu")
    (row,) = collect(ablation, tmp_path)
    assert row.changes["model.vision.n_inter"] == 1
    assert row.values["R@1"] == [0.1, 0.1, 0.1]


def test_rank_correlation_knows_ties_and_order() -> None:
    def rows(values: list[tuple[float, float]]) -> list[CellResult]:
        return [
            CellResult(cell=str(i), changes={}, by_seed={"a": {1: a}, "b": {1: b}}) for i, (a, b) in enumerate(values)
        ]

    assert columns_agree(rows([(1, 30), (2, 20), (3, 10)]), ("a", "b")) == pytest.approx(-1.0)
    assert columns_agree(rows([(1, 5), (2, 5), (3, 5)]), ("a", "b")) is None
    assert columns_agree(rows([(1, 1), (2, 3), (3, 2), (4, 4)]), ("a", "b")) == pytest.approx(0.8)


def test_a_cell_may_have_more_seeds_than_the_others(tmp_path: Path) -> None:
    ablation = Ablation.from_yaml(FOLDER / "smoke.yaml", ["cells.adaptation.seeds=[1,2,3]"])
    training = FakeTraining()
    run_jobs(plan(Ablation.from_yaml(FOLDER / "smoke.yaml"), tmp_path), training, stop=StopRequest(), device="cpu")
    before = len(training.ran)
    run_jobs(plan(ablation, tmp_path), training, stop=StopRequest(), device="cpu")
    assert len(training.ran) == before + 4  # two more seeds of two stages, and nothing twice
    seeds = {row.cell: len(row.values["CIDEr-D"]) for row in collect(ablation, tmp_path)}
    assert seeds == {"no adaptation": 1, "adaptation": 3, "no inter layers": 1}


def test_some_cells_alone_are_compared_among_themselves(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from spotchange.cli.main import app

    options = ["ablate", "idc-pcl", "--only", "none", "--only", "MLM + MVCL + FDA", "--minutes", "0"]
    done = CliRunner().invoke(app, [*options, "--out", str(tmp_path), "--device", "cpu"])
    assert done.exit_code == 0, done.output  # nothing is run in no minutes; the table is printed
    assert "none" in done.output


def test_a_table_that_is_cut_short_has_every_cell_of_a_seed() -> None:
    values = yaml.safe_load((FOLDER / "smoke.yaml").read_text()) | {"seeds": [1, 2]}
    first, *_ = values["cells"]
    values["cells"][first]["seeds"] = [1, 2, 3]
    ablation = Ablation.from_mapping(values, source="test")
    chains = list(dict.fromkeys(job.chain for job in plan(ablation, Path("out")) if job.chain != SHARED))
    cells = list(ablation.cells)
    assert len(cells) > 1
    expected = [f"{cell}, seed {seed}" for seed in (1, 2) for cell in cells]
    assert chains == [*expected, f"{first}, seed 3"]
