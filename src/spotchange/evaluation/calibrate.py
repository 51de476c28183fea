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
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spotchange.answering import ImagePair
from spotchange.answering.calibration import (
    CALIBRATION_FILE,
    FAMILIARITY_FILE,
    Calibration,
    Familiarity,
    expected_calibration_error,
)
from spotchange.answering.runtimes.interface import ModelRuntime
from spotchange.charts import reliability
from spotchange.data import Row
from spotchange.errors import ModelError, SpotchangeError
from spotchange.evaluation.facts import FACTS, fact_values, read_scenes
from spotchange.files import write_text
from spotchange.images import read_pair
from spotchange.models.interface import DecodingOptions
from spotchange.models.weights.description import sha256

if TYPE_CHECKING:
    from spotchange.answering.vlm.answerer import VlmAnswerer

FARTHER = 1.15
FALSE_ALARMS = 0.005  # share of known pairs that may be called unfamiliar
RELATION_WORDS = ("that", "left", "right", "behind", "on", "front")
RELIABILITY_FILE = "reliability.svg"
PENALTIES = (0.0, 0.5, 1.0, 2.0)
BEAMS = 3
_TEMPERATURES = np.geomspace(0.25, 8, 121)

Logits = npt.NDArray[np.floating]  # (pairs, change types), "none" first
Verdicts = npt.NDArray[np.bool_]  # (pairs,)


@dataclass(frozen=True, kw_only=True)
class CalibrationOutputs:
    """A model's raw outputs on labelled pairs."""

    logits: npt.NDArray[np.float32]  # (pairs, change types)
    features: npt.NDArray[np.float32]  # (pairs, width)
    changed: npt.NDArray[np.bool_]  # (pairs,)
    fact_accuracy: dict[float, float]  # by penalty on relation words; empty where the rows tell no facts


def collect(runtime: ModelRuntime, rows: Sequence[Row], *, batch_size: int = 16) -> CalibrationOutputs:
    """Run the model once over rows that say whether something changed."""
    changed = true_verdicts(rows)
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
    return CalibrationOutputs(
        logits=np.concatenate(logits),
        features=np.concatenate(features),
        changed=changed,
        fact_accuracy={penalty: float(np.mean(values)) for penalty, values in correct.items() if values},
    )


def true_verdicts(rows: Sequence[Row]) -> Verdicts:
    """Whether something changed, of rows that all say so."""
    unlabelled = [row.id for row in rows if row.change_type is None]
    if unlabelled or not rows:
        raise ModelError(f"calibration needs pairs with a change_type; {unlabelled[:1] or 'no row'} has none")
    return np.array([row.change_type != "none" for row in rows])


def collect_asked(answerer: VlmAnswerer, rows: Sequence[Row], *, batch_size: int = 16) -> tuple[Logits, Verdicts]:
    """Ask a vision-language model the score question about every row; one that tells no probability is an error."""
    from spotchange.answering.vlm.answerer import yes_logits

    changed, found = true_verdicts(rows), []
    for start in range(0, len(rows), batch_size):
        pairs = [ImagePair.of(row.before_path, row.after_path).load() for row in rows[start : start + batch_size]]
        for probability in answerer.yes_probabilities(pairs):
            if isinstance(probability, SpotchangeError):
                raise probability
            found.append(probability)
    return yes_logits(found), changed


def _decoding(runtime: ModelRuntime, penalty: float) -> DecodingOptions:
    ids = [runtime.token_id(word) for word in RELATION_WORDS]
    penalties = tuple((id, penalty) for id in ids if id is not None and penalty)
    return DecodingOptions(method="beam", beams=BEAMS, word_penalties=penalties)


def fit(outputs: CalibrationOutputs, *, fitted_on: str) -> tuple[Calibration, Familiarity]:
    """Temperature by likelihood, threshold by balanced accuracy, penalty by facts, familiarity by the features."""
    logits, changed = outputs.logits, outputs.changed
    temperature = min(
        _TEMPERATURES, key=lambda t: _negative_log_likelihood(logits, changed, Calibration(temperature=float(t)))
    )
    scores = Calibration(temperature=float(temperature)).change_scores(logits)
    # Half of the pairs describe what is known, the other half says how far known pairs stray from that.
    familiarity = Familiarity.fit(outputs.features[::2])
    held_out = familiarity.scores(outputs.features[1::2])
    calibration = Calibration(
        temperature=round(float(temperature), 4),
        threshold=_threshold(scores, changed),
        # A little less than that, because other images of the same world may lie farther out (benchmarks/gate.py).
        least_familiarity=round(float(np.quantile(held_out, FALSE_ALARMS)) / FARTHER, 8),
        word_penalties=dict.fromkeys(RELATION_WORDS, penalty) if (penalty := _best_penalty(outputs)) else {},
        fitted_on=fitted_on,
    )
    return calibration, familiarity


def fit_scores(logits: Logits, changed: Verdicts, *, fitted_on: str) -> Calibration:
    """Temperature and bias by likelihood, threshold by balanced accuracy: all there is to fit for a model one asks.

    The bias, because such models like to say yes.
    """
    temperature, bias = min(
        ((float(t), float(b)) for t in _TEMPERATURES[::4] for b in np.linspace(-6, 6, 121)),
        key=lambda both: _negative_log_likelihood(logits, changed, Calibration(temperature=both[0], bias=both[1])),
    )
    fitted = Calibration(temperature=round(temperature, 4), bias=round(bias, 4), fitted_on=fitted_on)
    return fitted.model_copy(update={"threshold": _threshold(fitted.change_scores(logits), changed)})


def report(outputs: CalibrationOutputs, calibration: Calibration, familiarity: Familiarity) -> dict[str, Any]:
    """What a model card says: accuracy of the verdict, calibration error with its bins, false alarms."""
    unfamiliar = familiarity.scores(outputs.features) < calibration.least_familiarity
    return report_scores(outputs.logits, outputs.changed, calibration) | {
        "called_unfamiliar": float(unfamiliar.mean()),
        "fact_accuracy_by_relation_penalty": {str(k): v for k, v in outputs.fact_accuracy.items()},
    }


def report_scores(logits: Logits, changed: Verdicts, calibration: Calibration) -> dict[str, Any]:
    """Of the verdict alone."""
    scores = calibration.change_scores(logits)
    error, bins = expected_calibration_error(scores, changed.tolist())
    return {
        "pairs": len(scores),
        "change_accuracy": float(((scores >= calibration.threshold) == changed).mean()),
        "expected_calibration_error": error,
        "reliability": [{"score": s, "changed": c, "pairs": n} for s, c, n in bins],
    }


def write(folder: Path, calibration: Calibration, familiarity: Familiarity, reports: dict[str, Any]) -> None:
    """Put the numbers and their image beside the weights."""
    familiarity.save(folder)
    values = calibration.model_dump() | {"familiarity_sha256": sha256(folder / FAMILIARITY_FILE), "reports": reports}
    write_text(folder / CALIBRATION_FILE, json.dumps(values, indent=2) + "\n")
    drawn = {name: each["reliability"] for name, each in reports.items() if "reliability" in each}
    write_text(folder / RELIABILITY_FILE, reliability(drawn) + "\n")


def _best_penalty(outputs: CalibrationOutputs) -> float:
    """The smallest of the penalties whose captions are true most often."""
    return max(outputs.fact_accuracy, key=lambda penalty: outputs.fact_accuracy[penalty], default=0.0)


def _threshold(scores: npt.NDArray[np.floating], changed: Verdicts) -> float:
    """The best by balanced accuracy, nearest the middle of all that are as good."""
    candidates = np.linspace(0.05, 0.95, 91)
    quality = np.array([_balanced_accuracy(scores >= each, changed) for each in candidates])
    # Differences within a standard error are chance.
    error = np.sqrt(quality.max() * (1 - quality.max()) / len(scores))
    best = candidates[quality >= quality.max() - error]
    return round(float(best[np.argmin(np.abs(best - 0.5))]), 4)


def _negative_log_likelihood(logits: Logits, changed: Verdicts, calibration: Calibration) -> float:
    scores = np.clip(calibration.change_scores(logits), 1e-9, 1 - 1e-9)
    return float(-np.where(changed, np.log(scores), np.log1p(-scores)).mean())


def _balanced_accuracy(said: npt.NDArray[np.bool_], truth: npt.NDArray[np.bool_]) -> float:
    return float((said[truth].mean() + (~said[~truth]).mean()) / 2)
