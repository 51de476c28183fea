"""Fit what a model's change score and familiarity mean, on validation data, and write it beside the weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from spotchange.captioner import Captioner
from spotchange.captioner.calibration import CALIBRATION_FILE, Calibration, Familiarity, expected_calibration_error
from spotchange.data.rows import Row
from spotchange.errors import ModelError
from spotchange.files import write_text
from spotchange.images import read_pair

FALSE_ALARMS = 0.005  # share of known pairs that may be called unfamiliar


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """A model's raw outputs on labelled pairs."""

    logits: npt.NDArray[np.float32]  # (pairs, change types)
    features: npt.NDArray[np.float32]  # (pairs, width)
    changed: npt.NDArray[np.bool_]  # (pairs,)


def collect(captioner: Captioner, rows: Sequence[Row], *, batch_size: int = 16) -> Outputs:
    """Run the model over rows that say whether something changed."""
    unlabelled = [row.id for row in rows if row.change_type is None]
    if unlabelled or not rows:
        raise ModelError(f"calibration needs pairs with a change_type; {unlabelled[:1] or 'no row'} has none")
    logits, features = [], []
    for start in range(0, len(rows), batch_size):
        pairs = [read_pair(row.before_path, row.after_path) for row in rows[start : start + batch_size]]
        with torch.inference_mode():
            before, after = (captioner.loaded.preprocess([pair[side] for pair in pairs]) for side in (0, 1))
            state = captioner.model.encode(before, after)
            change = captioner.model.change_logits(state)
            if change is None:
                raise ModelError("this model has no change head to calibrate")
            logits.append(change.float().cpu().numpy())
            features.append(state.features.float().cpu().numpy())
    return Outputs(
        logits=np.concatenate(logits),
        features=np.concatenate(features),
        changed=np.array([row.change_type != "none" for row in rows]),
    )


def fit(outputs: Outputs, *, fitted_on: str) -> tuple[Calibration, Familiarity]:
    """Temperature by likelihood, threshold by balanced accuracy, familiarity by the features' spread."""
    temperature = min(
        np.geomspace(0.25, 8, 121), key=lambda t: _negative_log_likelihood(outputs, Calibration(temperature=float(t)))
    )
    scores = Calibration(temperature=float(temperature)).change_scores(outputs.logits)
    candidates = np.linspace(0.05, 0.95, 91)
    quality = [_balanced_accuracy(scores >= each, outputs.changed) for each in candidates]
    best = candidates[np.isclose(quality, max(quality))]
    # Half of the pairs describe what is known, the other half says how far known pairs stray from that.
    familiarity = Familiarity.fit(outputs.features[::2])
    held_out = familiarity.scores(outputs.features[1::2])
    calibration = Calibration(
        temperature=round(float(temperature), 4),
        threshold=round(float(best[np.argmin(np.abs(best - 0.5))]), 4),
        least_familiarity=round(float(np.quantile(held_out, FALSE_ALARMS)), 8),
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
    }


def write(folder: Path, calibration: Calibration, familiarity: Familiarity, reports: dict[str, Any]) -> None:
    """Put both files beside the weights."""
    values = calibration.model_dump() | {"reports": reports}
    familiarity.save(folder)
    write_text(folder / CALIBRATION_FILE, json.dumps(values, indent=2) + "\n")


def _negative_log_likelihood(outputs: Outputs, calibration: Calibration) -> float:
    scores = np.clip(calibration.change_scores(outputs.logits), 1e-9, 1 - 1e-9)
    return float(-np.where(outputs.changed, np.log(scores), np.log1p(-scores)).mean())


def _balanced_accuracy(said: npt.NDArray[np.bool_], truth: npt.NDArray[np.bool_]) -> float:
    return float((said[truth].mean() + (~said[~truth]).mean()) / 2)
