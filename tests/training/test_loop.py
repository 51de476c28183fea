"""The loop itself, with a tiny model and batches from a counter."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from spotchange.config.training import Recipe
from spotchange.errors import ConfigError, ModelError
from spotchange.language.vocabulary import decode
from spotchange.models.build import build_model
from spotchange.training.checkpoints import load_state
from spotchange.training.log import read_log
from spotchange.training.loop import StageParts, Trainer
from spotchange.training.objectives.build import build_objective
from spotchange.training.stopping import StopRequest
from spotchange.training.validation import HeldOut, Validator

BASE: dict[str, Any] = {
    "name": "loop",
    "data": "stream",
    "stage": {"objective": {"kind": "caption"}, "steps": 6, "pairs_per_step": 8},
    "optimizer": {"lr": 1e-2},
    "validation": {"every": 2, "metric": "loss"},
    "checkpoints": {"every": 2},
    "log": {"every": 1},
}


@pytest.fixture
def make_trainer(tiny_settings, make_batch, counting_source, tmp_path: Path):
    def make(**changes: Any) -> Trainer:
        values = {**BASE, "model": tiny_settings.model_dump(mode="json")}
        for key, value in changes.items():
            values[key] = {**values.get(key, {}), **value}
        recipe = Recipe.from_mapping(values, source="test")
        torch.manual_seed(0)
        half = {"mean": (0.5,) * 3, "std": (0.25,) * 3}
        objective = build_objective(build_model(recipe.model), recipe.stage.objective, paired=True, **half)
        counting_source.pairs = recipe.stage.pairs_per_step // recipe.stage.accumulate
        held_out = HeldOut(batches=[make_batch(8, seed=999)], references=[["the cube moved"]] * 8)
        parts = StageParts(
            objective=objective,
            source=counting_source,
            validator=Validator(held_out, decode=decode, max_words=8),
            save_model=lambda folder: torch.save(objective.model.state_dict(), folder / "weights.pt"),
        )
        return Trainer(recipe, parts, accelerator=Accelerator(cpu=True), out=tmp_path / "run")

    return make


def lines(trainer: Trainer, kind: str) -> list[dict[str, Any]]:
    return [line for line in read_log(trainer.out / "log.jsonl") if line["kind"] == kind]


def test_a_run_logs_validates_and_saves(make_trainer) -> None:
    trainer = make_trainer()
    summary = trainer.run(resume=False, stop=StopRequest())
    assert summary["finished"]
    assert summary["step"] == 6
    assert [line["step"] for line in lines(trainer, "train")] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines(trainer, "validation")] == [2, 4, 6]
    assert all(line["pairs_per_second"] > 0 for line in lines(trainer, "train"))
    validated = {line["step"]: line["loss"] for line in lines(trainer, "validation")}
    assert summary["best"] == min(validated.values())
    assert (trainer.out / "best" / "weights.pt").is_file()
    assert load_state(trainer.out / "last")["step"] == 6


@pytest.mark.parametrize("compiled", [True, False])
def test_compiling_graphs_is_announced_and_nothing_else(
    make_trainer, compiled: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("spotchange.training.compilation.compile_regions", lambda objective: None)
    make_trainer(stage={"compile": compiled, "steps": 1}).run(resume=False, stop=StopRequest())
    assert capsys.readouterr().err.count("compiling graphs") == compiled


def test_rates_follow_the_schedule(make_trainer) -> None:
    trainer = make_trainer(schedule={"shape": "linear", "warmup": 0.5})
    trainer.run(resume=False, stop=StopRequest())
    # Logged after the step: the factor that the next step would use.
    factors = [line["rate_factor"] for line in lines(trainer, "train")]
    assert factors == pytest.approx([1 / 3, 2 / 3, 1.0, 2 / 3, 1 / 3, 0.0])


def test_early_stop_ends_the_run_as_finished(make_trainer) -> None:
    trainer = make_trainer(
        validation={"patience": 1, "every": 1, "metric": "R@1"},
        stage={"objective": {"kind": "adapt"}, "steps": 100},
        optimizer={"lr": 1e-9},
    )
    summary = trainer.run(resume=False, stop=StopRequest())
    assert summary["finished"]
    assert summary["step"] == 2  # the first is the best, the second is no better


def test_minutes_end_the_plan_and_its_schedule(make_trainer) -> None:
    trainer = make_trainer(stage={"steps": 10**6, "max_minutes": 0.005})
    summary = trainer.run(resume=False, stop=StopRequest())
    assert summary["finished"]
    assert 0 < summary["step"] < 10**6
    assert lines(trainer, "train")[-1]["rate_factor"] == pytest.approx(0.0, abs=1e-6)


def test_a_warm_up_in_minutes_begins_when_all_is_compiled(make_trainer) -> None:
    trainer = make_trainer(
        stage={"steps": 10**6, "max_minutes": 0.01}, schedule={"warmup": 0.9, "shape": "constant"}, log={"every": 1}
    )
    update = trainer._update_once

    def slow_at_first(batch):
        time.sleep(1.0 if trainer.step == 0 else 0.0)  # longer than the stage's minutes
        return update(batch)

    trainer._update_once = slow_at_first
    trainer.run(resume=False, stop=StopRequest())
    rates = [line["rate_factor"] for line in lines(trainer, "train")]
    assert len(rates) > 3
    assert rates[0] < 0.5


def test_a_command_that_stops_leaves_the_plan_unfinished(make_trainer) -> None:
    trainer = make_trainer(stage={"steps": 1000})
    summary = trainer.run(resume=False, stop=StopRequest(minutes=0.0))
    assert not summary["finished"]
    assert summary["step"] == 1
    assert load_state(trainer.out / "last")["step"] == 1


def test_parts_of_a_step_give_its_gradient(make_trainer, make_batch) -> None:
    """Two halves of the rows, with as many words each, learn what the whole learns."""
    batch = make_batch(8, seed=1)
    batch.caption_mask[:] = batch.caption_mask[0]
    weights = []
    for parts in (1, 2):
        trainer = make_trainer(stage={"accumulate": parts})
        trainer.parallel.eval()  # no dropout
        size = 8 // parts
        halves = iter([batch[i * size : (i + 1) * size] for i in range(parts)])
        trainer.source.next_batch = lambda halves=halves: next(halves)
        for group in trainer.optimizer.param_groups:
            group["eps"] = 1.0  # Adam's first step is the gradient's sign otherwise, which hides its size
        trainer._update()
        weights.append([value.detach().clone() for value in trainer.objective.parameters()])
    for whole, halves in zip(*weights, strict=True):
        torch.testing.assert_close(halves, whole, rtol=1e-5, atol=1e-7)


def test_a_broken_loss_stops_before_it_is_saved(make_trainer) -> None:
    trainer = make_trainer(checkpoints={"every": 1})
    trainer.run(resume=False, stop=StopRequest(at_step=2))
    with torch.no_grad():
        trainer.objective.model.encoder.projection.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="not a finite number at step 3"):
        trainer._train(_Silent(), StopRequest())
    assert load_state(trainer.out / "last")["step"] == 2


class _Silent:
    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: None


def test_resume_refuses_another_model(make_trainer) -> None:
    make_trainer().run(resume=False, stop=StopRequest(at_step=2))
    other = make_trainer(stage={"objective": {"kind": "caption", "dense": {}}})
    with pytest.raises(ConfigError, match="another model"):
        other.run(resume=True, stop=StopRequest())


def test_average_is_what_is_validated_and_saved(make_trainer) -> None:
    trainer = make_trainer(stage={"ema": 0.99})
    trainer.run(resume=False, stop=StopRequest())
    saved = torch.load(trainer.out / "last" / "weights.pt", weights_only=True)
    state = load_state(trainer.out / "last")
    name = "encoder.projection.weight"
    assert torch.equal(saved[name], state["average"]["shadow"][f"model.{name}"])
    assert not torch.equal(saved[name], state["objective"][f"model.{name}"])


def test_recorded_updates_are_for_a_gpu_and_run_as_they_are_elsewhere(make_trainer) -> None:
    trainer = make_trainer(stage={"cuda_graph": True})
    assert trainer.run(resume=False, stop=StopRequest())["finished"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"optimizer": {"muon": True}}, "plain adamw or adam"),
        ({"optimizer": {"algorithm": "bert-adam"}}, "plain adamw or adam"),
        ({"stage": {"cuda_graph": True, "accumulate": 2}}, "whole update"),
    ],
)
def test_what_cannot_be_recorded_is_refused(make_trainer, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make_trainer(**{"stage": {"cuda_graph": True}} | changes)
