"""Fit what a model's scores mean, on validation data, and write it beside the weights.

Four things are fitted: the temperature of the change score, the score that counts as a change, how far from
known features a pair may lie, and how much is taken off the words of relations. The last because a model can
see an object well and still mistake its neighbours: a relation that is not needed is a chance to be wrong.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spotchange.answering.calibration import CALIBRATION_FILE, Calibration, Familiarity, expected_calibration_error
from spotchange.answering.runtimes.interface import ModelRuntime
from spotchange.charts import reliability
from spotchange.data import Row
from spotchange.errors import ModelError
from spotchange.evaluation.facts import FACTS, fact_values, read_scenes
from spotchange.files import write_text
from spotchange.images import read_pair
from spotchange.models.interface import DecodingOptions

FALSE_ALARMS = 0.005  # share of known pairs that may be called unfamiliar
RELATION_WORDS = ("that", "left", "right", "behind", "on", "front")
RELIABILITY_FILE = "reliability.svg"
PENALTIES = (0.0, 0.5, 1.0, 2.0)
BEAMS = 3


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """A model's raw outputs on labelled pairs."""

    logits: npt.NDArray[np.float32]  # (pairs, change types)
    features: npt.NDArray[np.float32]  # (pairs, width)
    changed: npt.NDArray[np.bool_]  # (pairs,)
    fact_accuracy: dict[float, float]  # by penalty on relation words; empty where the rows tell no facts


def collect(runtime: ModelRuntime, rows: Sequence[Row], *, batch_size: int = 16) -> Outputs:
    """Run the model once over rows that say whether something changed."""
    unlabelled = [row.id for row in rows if row.change_type is None]
    if unlabelled or not rows:
        raise ModelError(f"calibration needs pairs with a change_type; {unlabelled[:1] or 'no row'} has none")
    scenes = read_scenes(rows)
    logits, features = [], []
    correct: dict[float, list[float]] = {penalty: [] for penalty in PENALTIES}
    for start in range(0, len(rows), batch_size):
        part = rows[start : start + batch_size]
        pairs = [read_pair(row.before_path, row.after_path) for row in part]
        encoded = runtime.encode([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        if encoded.change_logits is None:
            raise ModelError("this model has no change head to calibrate")
        logits.append(encoded.change_logits)
        features.append(encoded.features)
        for penalty in PENALTIES:
            captions = runtime.generate(encoded, _decoding(runtime, penalty))
            for row, candidates in zip(part, captions, strict=True):
                values = fact_values(row, candidates[0].text, scenes)
                correct[penalty] += [v for k, v in values.items() if k == FACTS]
    return Outputs(
        logits=np.concatenate(logits),
        features=np.concatenate(features),
        changed=np.array([row.change_type != "none" for row in rows]),
        fact_accuracy={penalty: float(np.mean(values)) for penalty, values in correct.items() if values},
    )


def _decoding(runtime: ModelRuntime, penalty: float) -> DecodingOptions:
    ids = [runtime.token_id(word) for word in RELATION_WORDS]
    penalties = tuple((id, penalty) for id in ids if id is not None and penalty)
    return DecodingOptions(method="beam", beams=BEAMS, word_penalties=penalties)


def fit(outputs: Outputs, *, fitted_on: str) -> tuple[Calibration, Familiarity]:
    """Temperature by likelihood, threshold by balanced accuracy, penalty by facts, familiarity by the features."""
    temperature = min(
        np.geomspace(0.25, 8, 121), key=lambda t: _negative_log_likelihood(outputs, Calibration(temperature=float(t)))
    )
    scores = Calibration(temperature=float(temperature)).change_scores(outputs.logits)
    candidates = np.linspace(0.05, 0.95, 91)
    quality = np.array([_balanced_accuracy(scores >= each, outputs.changed) for each in candidates])
    # Differences within a standard error are chance: of all that are as good, the one nearest the middle.
    error = np.sqrt(quality.max() * (1 - quality.max()) / len(scores))
    best = candidates[quality >= quality.max() - error]
    # Half of the pairs describe what is known, the other half says how far known pairs stray from that.
    familiarity = Familiarity.fit(outputs.features[::2])
    held_out = familiarity.scores(outputs.features[1::2])
    calibration = Calibration(
        temperature=round(float(temperature), 4),
        threshold=round(float(best[np.argmin(np.abs(best - 0.5))]), 4),
        # Half of that, because other pictures of the same world may lie a little farther out.
        least_familiarity=round(float(np.quantile(held_out, FALSE_ALARMS)) / 2, 8),
        word_penalties=dict.fromkeys(RELATION_WORDS, penalty) if (penalty := _best_penalty(outputs)) else {},
        fitted_on=fitted_on,
    )
    return calibration, familiarity


def report(outputs: Outputs, calibration: Calibration, familiarity: Familiarity) -> dict[str, Any]:
    """What a model card says: accuracy of the verdict, calibration error with its bins, false alarms."""
    scores = calibration.change_scores(outputs.logits)
    error, bins = expected_calibration_error(scores, outputs.changed.tolist())
    unfamiliar = familiarity.scores(outputs.features) < calibration.least_familiarity
    return {
        "pairs": len(scores),
        "change_accuracy": float(((scores >= calibration.threshold) == outputs.changed).mean()),
        "expected_calibration_error": error,
        "reliability": [{"score": s, "changed": c, "pairs": n} for s, c, n in bins],
        "called_unfamiliar": float(unfamiliar.mean()),
        "fact_accuracy_by_relation_penalty": {str(k): v for k, v in outputs.fact_accuracy.items()},
    }


def write(folder: Path, calibration: Calibration, familiarity: Familiarity, reports: dict[str, Any]) -> None:
    """Put the numbers and their picture beside the weights."""
    values = calibration.model_dump() | {"reports": reports}
    familiarity.save(folder)
    write_text(folder / CALIBRATION_FILE, json.dumps(values, indent=2) + "\n")
    drawn = {name: each["reliability"] for name, each in reports.items() if "reliability" in each}
    write_text(folder / RELIABILITY_FILE, reliability(drawn) + "\n")


def _best_penalty(outputs: Outputs) -> float:
    """The smallest of the penalties whose captions are true most often."""
    return max(outputs.fact_accuracy, key=lambda penalty: outputs.fact_accuracy[penalty], default=0.0)


def _negative_log_likelihood(outputs: Outputs, calibration: Calibration) -> float:
    scores = np.clip(calibration.change_scores(outputs.logits), 1e-9, 1 - 1e-9)
    return float(-np.where(outputs.changed, np.log(scores), np.log1p(-scores)).mean())


def _balanced_accuracy(said: npt.NDArray[np.bool_], truth: npt.NDArray[np.bool_]) -> float:
    return float((said[truth].mean() + (~said[~truth]).mean()) / 2)
