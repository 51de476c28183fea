"""What was learnt about a model after training: how to read its change score, and what it has seen before.

`calibration.json` beside the weights holds the numbers; `familiarity.safetensors` the feature statistics.
Both are fitted on validation data (see `spotchange.evaluation.calibrate`), never on test data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from spotchange.config.base import Settings
from spotchange.errors import ModelError
from spotchange.files import load_json, read_input
from spotchange.models.weights.description import check_sum

CALIBRATION_FILE = "calibration.json"
FAMILIARITY_FILE = "familiarity.safetensors"


class Calibration(Settings):
    """How a model's raw outputs become a verdict."""

    temperature: float = Field(default=1.0, gt=0)
    """Divides the change logits before the softmax."""
    bias: float = 0.0
    """Added to the logit of a change; fitted for vision-language models, which like to say yes."""
    threshold: float = Field(default=0.5, gt=0, lt=1)
    """A change score from here on is called a change."""
    least_familiarity: float = Field(default=0.0, ge=0, le=1)
    """Images less familiar than this are answered from their pixels alone."""
    word_penalties: dict[str, float] = Field(default_factory=dict)
    """Taken off a word's score while captions are searched: words that validation showed to be wrong too often."""
    noun_temperature: float = Field(default=1.0, gt=0)
    """Divides the noun scores of a second look before the softmax."""
    noun_level: float = Field(default=0.8, gt=0, le=1)
    """The most specific noun whose probability reaches this is said; below it "something"."""
    colour_level: float = Field(default=0.6, gt=0, le=1)
    """A colour is said from this probability on."""
    fitted_on: str = ""
    """The data the numbers come from."""
    familiarity_sha256: str = ""
    """Checksum of the feature statistics that were fitted with it."""

    def change_scores(self, logits: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Probability of a change from (pairs, change types) logits, "none" first."""
        scaled = logits.astype(np.float64) / self.temperature
        scaled[:, 1:] += self.bias
        scaled -= scaled.max(axis=1, keepdims=True)
        odds = np.exp(scaled)
        unchanged: npt.NDArray[np.float64] = odds[:, 0] / odds.sum(axis=1)
        return np.asarray(1.0 - unchanged)

    @classmethod
    def read(cls, folder: Path) -> Calibration:
        """The model folder's calibration; neutral values where it has none."""
        path = folder / CALIBRATION_FILE
        return cls.read_file(path) if path.exists() else cls()

    @classmethod
    def read_file(cls, path: Path) -> Calibration:
        """The numbers in a file that `models calibrate` wrote."""
        try:
            values = load_json(read_input(path))
            return cls.model_validate({name: values[name] for name in cls.model_fields if name in values})
        except (OSError, ValueError, TypeError, ValidationError) as error:
            raise ModelError(f"{path} is not a valid calibration: {' '.join(str(error).split())}") from error


def read_calibration(folder: Path) -> tuple[Calibration, Familiarity | None]:
    """What a model folder knows about its own outputs.

    Raises:
        ModelError: also where one of the two files is there without the other, or with another's. Without either the
            model would answer about anything with confidence.
    """
    calibration, familiarity = Calibration.read(folder), Familiarity.read(folder)
    if calibration.least_familiarity > 0 and familiarity is None:
        raise ModelError(
            f"{folder} has a {CALIBRATION_FILE} but not the {FAMILIARITY_FILE} that belongs to it",
            hint=f"copy it from where the folder came from, or remove {CALIBRATION_FILE} and calibrate again",
        )
    if familiarity is not None and not (folder / CALIBRATION_FILE).exists():
        raise ModelError(
            f"{folder} has a {FAMILIARITY_FILE} but not the {CALIBRATION_FILE} that belongs to it",
            hint=f"copy it from where the folder came from, or remove {FAMILIARITY_FILE} and calibrate again",
        )
    if familiarity is not None:
        check_sum(folder / FAMILIARITY_FILE, calibration.familiarity_sha256 or None, source=CALIBRATION_FILE)
    return calibration, familiarity


class Familiarity:
    """How usual a pair's features are among those of the model's own world.

    The distance is Mahalanobis' in the leading directions of the known features plus what those
    directions leave unexplained; it is reported as the share of known pairs that lie farther out.
    """

    def __init__(
        self,
        *,
        mean: npt.NDArray[np.float32],
        directions: npt.NDArray[np.float32],
        spreads: npt.NDArray[np.float32],
        residual: float,
        quantiles: npt.NDArray[np.float32],
    ) -> None:
        self.mean = mean  # (width,)
        self.directions = directions  # (kept, width)
        self.spreads = spreads  # (kept,) standard deviations along them
        self.residual = residual  # mean square of what they leave over
        self.quantiles = quantiles  # distances of known pairs at evenly spaced ranks

    def distances(self, features: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Squared distance of each row, 1 on average over known pairs in each of its two parts."""
        centred = features.astype(np.float64) - self.mean
        along = centred @ self.directions.T.astype(np.float64)
        unexplained = np.maximum((centred**2).sum(axis=1) - (along**2).sum(axis=1), 0) / self.residual
        explained: npt.NDArray[np.float64] = ((along / self.spreads) ** 2).mean(axis=1)
        return np.asarray(explained + unexplained)

    def scores(self, features: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """In [0, 1]; below the last quantile it falls off with the distance instead of stopping at 0."""
        distance = self.distances(features)
        ranks = 1.0 - np.interp(distance, self.quantiles, np.linspace(0, 1, len(self.quantiles)))
        smallest = 1.0 / len(self.quantiles)
        beyond = smallest * self.quantiles[-1] / np.maximum(distance, 1e-9)
        return np.where(distance > self.quantiles[-1], np.minimum(beyond, smallest), np.maximum(ranks, smallest))

    @classmethod
    def fit(cls, features: npt.NDArray[np.floating], *, kept: int = 64) -> Familiarity:
        """Statistics of known pairs' features, (pairs, width)."""
        mean = features.mean(axis=0)
        centred = (features - mean).astype(np.float64)
        kept = min(kept, len(features) - 1, features.shape[1] - 1)
        _, singular, directions = np.linalg.svd(centred, full_matrices=False)
        spreads = singular[:kept] / np.sqrt(len(features))
        along = centred @ directions[:kept].T
        residual = float(((centred**2).sum(axis=1) - (along**2).sum(axis=1)).mean())
        fitted = cls(
            mean=mean.astype(np.float32),
            directions=directions[:kept].astype(np.float32),
            spreads=np.maximum(spreads, 1e-6).astype(np.float32),
            residual=max(residual, 1e-9),
            quantiles=np.zeros(1, np.float32),
        )
        fitted.quantiles = np.quantile(fitted.distances(features), np.linspace(0, 1, 1001)).astype(np.float32)
        return fitted

    def save(self, folder: Path) -> None:
        """Write beside the weights."""
        from safetensors.numpy import save_file

        from spotchange.files import atomic_path

        tensors = {name: np.asarray(value, dtype=np.float32) for name, value in vars(self).items()}
        with atomic_path(folder / FAMILIARITY_FILE) as temporary:
            save_file(tensors, temporary)

    @classmethod
    def read(cls, folder: Path) -> Familiarity | None:
        """The model folder's statistics, if it has any."""
        path = folder / FAMILIARITY_FILE
        if not path.exists():
            return None
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            if not path.is_file():
                raise OSError("it is not a file")
            tensors: dict[str, Any] = load_file(path)
            return cls(**(tensors | {"residual": float(tensors["residual"])}))
        except (OSError, SafetensorError, KeyError, TypeError) as error:
            raise ModelError(f"{path} is damaged: {' '.join(str(error).split())}") from error


def expected_calibration_error(
    scores: npt.NDArray[np.floating], changed: Sequence[bool], *, bins: int = 15
) -> tuple[float, list[tuple[float, float, int]]]:
    """Mean gap between score and truth over equal-width bins, and (mean score, share changed, pairs) of each bin."""
    truth = np.asarray(changed, dtype=np.float64)
    places = np.minimum((scores * bins).astype(int), bins - 1)
    table = []
    gap = 0.0
    for place in range(bins):
        inside = places == place
        if inside.any():
            mean_score, share = float(scores[inside].mean()), float(truth[inside].mean())
            table.append((mean_score, share, int(inside.sum())))
            gap += inside.mean() * abs(mean_score - share)
    return float(gap), table
