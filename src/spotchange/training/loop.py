"""The one training loop: batch, objective, backward, clip, step, log, evaluate, save."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from spotchange.config.training import Recipe
from spotchange.errors import ConfigError, ModelError
from spotchange.files import recover_folder, write_text
from spotchange.models.weights.description import BEST, LAST
from spotchange.pairs import PairBatch
from spotchange.training import distributed
from spotchange.training.checkpoints import load_state, replace_folder, save_state
from spotchange.training.compilation import compile_objective, uncompiled
from spotchange.training.log import RunLog
from spotchange.training.objectives.base import Objective
from spotchange.training.optimizers import WeightAverage, build_optimizer, rate_factor, set_rates
from spotchange.training.randomness import random_state, restore_random_state, seed_everything
from spotchange.training.recording import RecordedUpdate
from spotchange.training.sources.interface import Batches
from spotchange.training.stopping import StopRequest
from spotchange.training.validation import Selection, Validator

CAPTIONS = "captions.jsonl"


@dataclass(frozen=True, kw_only=True)
class StageParts:
    """What a stage is made of."""

    objective: Objective
    source: Batches
    validator: Validator | None
    tester: Validator | None = None
    save_model: Callable[[Path], None]


class Trainer:
    """One stage of training; everything it needs comes ready-made from `training/run.py`."""

    def __init__(self, recipe: Recipe, parts: StageParts, *, accelerator: Accelerator, out: Path) -> None:
        self.recipe, self.stage = recipe, recipe.stage
        self.accelerator, self.out = accelerator, out
        self.objective, self.source, self.save_model = parts.objective, parts.source, parts.save_model
        self.validator, self.tester = parts.validator, parts.tester
        self.optimizer = build_optimizer(self.objective, recipe.optimizer)
        self.average = WeightAverage(self.objective, recipe.stage.ema) if recipe.stage.ema else None
        compile_objective(self.objective, self.stage.compile)
        self.parallel = accelerator.prepare(self.objective)
        self._update_once: Callable[[PairBatch], dict[str, Tensor]] = self._apply
        if recipe.stage.cuda_graph and accelerator.device.type == "cuda" and accelerator.num_processes == 1:
            self._update_once = RecordedUpdate(self._apply, self.optimizer)
        self.selection = Selection(
            self._metric(),
            patience=recipe.validation.patience,
            equal_is_better=recipe.validation.equal_is_better,
            keep_after=recipe.validation.keep_after,
        )
        self.step = 0
        self.elapsed = 0.0  # seconds of training over all commands, as of the last look at the clock
        self.finished = False

    def run(self, *, resume: bool, stop: StopRequest) -> dict[str, Any]:
        """Train until the plan is done or `stop` says so; returns where the run stands."""
        recover_folder(self.out / LAST)
        recover_folder(self.out / BEST)
        if resume:
            self._restore(load_state(self.out / LAST))
        log = RunLog(
            self.out,
            self.recipe.log,
            steps=self.stage.steps,
            start=self.step,
            main=self.accelerator.is_main_process,
        )
        try:
            return self._train(log, stop)
        finally:
            log.close()

    def _train(self, log: RunLog, stop: StopRequest) -> dict[str, Any]:
        self._began, self._elapsed_before, first = time.monotonic(), self.elapsed, self.step
        learning = sum(each.numel() for each in self.objective.parameters() if each.requires_grad)
        log.event("start", step=self.step, name=self.recipe.name, processes=distributed.count(), parameters=learning)
        mark = (time.monotonic(), self.step)
        self.finished = self.step >= self.stage.steps
        stopping = self.finished
        self.parallel.train()
        if self.stage.compile and not stopping:
            log.say("compiling graphs; the first steps take longer")
        while not stopping:
            set_rates(self.optimizer, rate_factor(self._progress(), self.recipe.schedule))
            values = self._update()
            if self.step == first:  # compiling is no training: a warm-up in minutes must not be over before it begins
                self._began = time.monotonic()
            self.step += 1
            if self._looks_at_clock():
                self.elapsed = distributed.agree(self._elapsed_before + time.monotonic() - self._began)
                stopping = distributed.agree(stop.wanted(self.step))
            self.finished = self._progress() >= 1.0
            stopping = stopping or self.finished
            if self.step % self.recipe.log.every == 0 or stopping:
                mark = self._log(log, values, mark)
            if self.step % self.recipe.validation.every == 0 or self.finished:
                before = time.monotonic()
                self._evaluate(log)
                mark = (mark[0] + time.monotonic() - before, mark[1])
                self.finished = self.finished or self.selection.gave_up
                stopping = stopping or self.finished
            if self.step % self.recipe.checkpoints.every == 0 or stopping:
                self._save(values)
        if self.finished and self.tester is not None:
            self._test(log, self.tester)
        summary = self._summary()
        log.event("end", **summary)
        return summary

    def _update(self) -> dict[str, Tensor]:
        """One step of the optimizer; returns scalars that are still on the device."""
        parts = self.stage.accumulate
        for _ in range(parts - 1):
            with self.accelerator.no_sync(self.parallel):
                self._accumulate(self.source.next_batch(), parts)
        values = self._update_once(self.source.next_batch())
        if self.average is not None:
            self.average.update()
        return values

    def _accumulate(self, batch: PairBatch, parts: int) -> dict[str, Tensor]:
        """Add the gradients of one of the parts of an update."""
        with self._autocast():
            values: dict[str, Tensor] = self.parallel(batch)
        self.accelerator.backward(values["loss"] / parts)
        return values

    def _apply(self, batch: PairBatch) -> dict[str, Tensor]:
        """The last part of an update, and the step; nothing here is fetched, so that it can be recorded."""
        values = self._accumulate(batch, self.stage.accumulate)
        if self.recipe.optimizer.clip_norm is not None:
            values["gradient_norm"] = self.accelerator.clip_grad_norm_(
                self.objective.parameters(), self.recipe.optimizer.clip_norm
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.objective.after_step()
        return values

    def _log(self, log: RunLog, values: dict[str, Tensor], mark: tuple[float, int]) -> tuple[float, int]:
        fetched = self._fetch(values)
        now = time.monotonic()
        seconds = max(now - mark[0], 1e-9) / max(self.step - mark[1], 1)
        fetched |= {
            "rate_factor": rate_factor(self._progress(), self.recipe.schedule),
            "pairs_per_second": self.stage.pairs_per_step / seconds,
            "seconds_per_step": seconds,
        }
        log.step({"step": self.step, **fetched})
        return now, self.step

    def _evaluate(self, log: RunLog) -> None:
        if self.validator is None:
            better = True  # nothing to select by: the newest is the best
        else:
            kept = random_state(self.accelerator.device)  # validating must not change what training draws
            with self._averaged(), self._autocast(), uncompiled(self.stage.compile):
                results = self.validator.evaluate(self.objective)
            self.parallel.train()
            restore_random_state(kept, self.accelerator.device)
            log.validation({"step": self.step, **results})
            better = self.selection.consider(results, self.step)
        if better and self.accelerator.is_main_process:
            with self._averaged():
                replace_folder(self.out / BEST, self.save_model)
            if self.validator is not None and self.tester is None:
                self._keep_captions(self.validator)
        self.accelerator.wait_for_everyone()

    def _test(self, log: RunLog, tester: Validator) -> None:
        """Evaluate the best checkpoint on pairs that nothing was chosen by; the run has ended."""
        self.objective.take_weights(self.out / BEST)
        with self._autocast(), uncompiled(self.stage.compile):
            results = tester.evaluate(self.objective)
        log.event("test", step=self.selection.best_step, **results)
        if self.accelerator.is_main_process:
            self._keep_captions(tester)

    def _keep_captions(self, validator: Validator) -> None:
        if self.recipe.validation.keep_captions:
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in validator.said)
            write_text(self.out / CAPTIONS, "".join(lines))

    def _save(self, values: dict[str, Tensor]) -> None:
        self._fetch(values)  # refuses to put broken weights in the place of good ones
        random = distributed.gather_objects(random_state(self.accelerator.device))
        sources = distributed.gather_objects(self.source.state_dict())
        if self.accelerator.is_main_process:
            state = {
                "step": self.step,
                "elapsed": self.elapsed,
                "selection": self.selection.state_dict(),
                "objective": self.objective.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "average": None if self.average is None else self.average.state_dict(),
                "random": random,
                "sources": sources,
            }

            def fill(folder: Path) -> None:
                with self._averaged():
                    self.save_model(folder)
                save_state(folder, state)

            replace_folder(self.out / LAST, fill)
        self.accelerator.wait_for_everyone()

    def _restore(self, state: dict[str, Any]) -> None:
        rank = self.accelerator.process_index
        if (state["average"] is None) != (self.average is None):
            raise ConfigError("stage.ema was switched on or off since the run was saved")
        try:
            self.objective.load_state_dict(state["objective"])
            self.optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError) as error:
            raise ConfigError(f"the saved run is of another model: {' '.join(str(error).split())[:300]}") from error
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.selection.load_state_dict(state["selection"])
        self.step, self.elapsed = state["step"], state["elapsed"]
        # Where the data stand is counted over all processes, so any state holds for any number of them.
        self.source.load_state_dict(state["sources"][0])
        if len(state["random"]) == distributed.count():
            restore_random_state(state["random"][rank], self.accelerator.device)
        else:  # the same pairs follow; only dropout and augmentation are drawn otherwise
            seed_everything(self.recipe.seed + self.step, rank)

    def _progress(self) -> float:
        """How much of the plan is done: by steps or by minutes, whichever is further."""
        by_time = 0.0 if self.stage.max_minutes is None else self.elapsed / (60.0 * self.stage.max_minutes)
        return max(self.step / self.stage.steps, by_time)

    def _looks_at_clock(self) -> bool:
        """Every step alone; together only now and then, since all processes must hear of it."""
        return distributed.count() == 1 or self.step % self.recipe.log.every == 0

    def _fetch(self, values: dict[str, Tensor]) -> dict[str, float]:
        fetched = distributed.mean_over_processes(values)
        if not math.isfinite(fetched["loss"]):
            raise ModelError(
                f"the loss is not a finite number at step {self.step}",
                hint="lower optimizer.lr, lengthen schedule.warmup or set optimizer.clip_norm; `last` is still good",
            )
        return fetched

    def _autocast(self) -> AbstractContextManager[None]:
        return torch.autocast(
            self.accelerator.device.type, dtype=torch.bfloat16, enabled=self.stage.precision == "bf16"
        )

    def _averaged(self) -> AbstractContextManager[None]:
        return nullcontext() if self.average is None else self.average.applied()

    def _metric(self) -> str:
        named = self.recipe.validation.metric
        return self.objective.metric if named == "default" else named

    def _summary(self) -> dict[str, Any]:
        return {
            "name": self.recipe.name,
            "out": str(self.out),
            "step": self.step,
            "steps": self.stage.steps,
            "finished": self.finished,
            "minutes": round(self.elapsed / 60, 2),
            "metric": self.selection.metric,
            "best": self.selection.best,
            "best_step": self.selection.best_step,
        }
