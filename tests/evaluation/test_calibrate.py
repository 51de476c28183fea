"""What is fitted on validation outputs, and what a folder says about it afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from spotchange.answering.calibration import (
    Calibration,
    Familiarity,
    expected_calibration_error,
    read_calibration,
)
from spotchange.errors import ModelError
from spotchange.evaluation.calibrate import RELATION_WORDS, CalibrationOutputs, fit, report, write


def outputs(overconfident: float = 1.0, pairs: int = 2000) -> CalibrationOutputs:
    """Logits whose change probability is true by construction, then sharpened."""
    rng = np.random.default_rng(0)
    margin = rng.normal(0, 2, pairs)
    changed = rng.random(pairs) < 1 / (1 + np.exp(-margin))
    logits = np.stack([np.zeros(pairs), margin], axis=1) * overconfident
    features = rng.normal(0, 1, (pairs, 12)) @ rng.normal(0, 1, (12, 12))
    return CalibrationOutputs(
        logits=logits.astype(np.float32),
        features=features.astype(np.float32),
        changed=changed,
        fact_accuracy={0.0: 0.7, 0.5: 0.9, 1.0: 0.9, 2.0: 0.8},
    )


@pytest.mark.parametrize("overconfident", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_overconfidence(overconfident: float) -> None:
    calibration, familiarity = fit(outputs(overconfident), fitted_on="made/val")
    assert calibration.temperature == pytest.approx(overconfident, rel=0.15)
    told = report(outputs(overconfident), calibration, familiarity)
    assert told["expected_calibration_error"] < 0.03
    assert 0.3 <= calibration.threshold <= 0.7


def test_the_mildest_of_the_best_penalties_is_taken() -> None:
    calibration, _ = fit(outputs(), fitted_on="made/val")
    assert calibration.word_penalties == dict.fromkeys(RELATION_WORDS, 0.5)


def test_known_pairs_are_familiar_and_others_are_not() -> None:
    known = outputs()
    calibration, familiarity = fit(known, fitted_on="made/val")
    assert (familiarity.scores(known.features) < calibration.least_familiarity).mean() <= 0.01
    assert (familiarity.scores(known.features * 8) < calibration.least_familiarity).mean() > 0.9
    scores = familiarity.scores(np.concatenate([known.features, known.features * 50]))
    assert scores.min() >= 0
    assert scores.max() <= 1


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    calibration, familiarity = fit(outputs(), fitted_on="made/val")
    write(tmp_path, calibration, familiarity, {"made/val": report(outputs(), calibration, familiarity)})
    read, known = read_calibration(tmp_path)
    assert read == calibration.model_copy(update={"familiarity_sha256": read.familiarity_sha256})
    assert known is not None
    again = Familiarity.read(tmp_path)
    assert again is not None
    np.testing.assert_allclose(again.scores(outputs().features), familiarity.scores(outputs().features), rtol=1e-3)
    assert json.loads((tmp_path / "calibration.json").read_text())["reports"]["made/val"]["pairs"] == 2000
    drawn = ElementTree.fromstring((tmp_path / "reliability.svg").read_text())
    bins = report(outputs(), calibration, familiarity)["reliability"]
    assert len([each for each in drawn if each.tag.endswith("circle")]) == len(bins)


def test_a_folder_without_calibration_is_neutral_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    assert Calibration.read(tmp_path) == Calibration()
    assert Familiarity.read(tmp_path) is None
    (tmp_path / "calibration.json").write_text('{"temperature": -1}')
    (tmp_path / "familiarity.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ModelError, match="not a valid calibration"):
        Calibration.read(tmp_path)
    with pytest.raises(ModelError, match="damaged"):
        Familiarity.read(tmp_path)


def test_statistics_of_another_calibration_are_refused(tmp_path: Path) -> None:
    calibration, familiarity = fit(outputs(), fitted_on="made/val")
    write(tmp_path, calibration, familiarity, {})
    familiarity.residual *= 2
    familiarity.save(tmp_path)
    with pytest.raises(ModelError, match=r"familiarity\.safetensors is damaged: its checksum is not"):
        read_calibration(tmp_path)


def test_calibration_error_by_hand() -> None:
    error, bins = expected_calibration_error(np.array([0.1, 0.1, 0.9, 0.9]), [False, True, True, True], bins=2)
    assert error == pytest.approx(0.5 * 0.4 + 0.5 * 0.1)
    assert bins == [(pytest.approx(0.1), 0.5, 2), (pytest.approx(0.9), 1.0, 2)]
