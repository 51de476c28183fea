"""Calibrates an everyday model from saved scores: python benchmarks/everyday_calibrate.py MODEL RAW.npz

RAW.npz comes from `everyday_figures.py --save`. The first half of the known nouns' pairs fits the numbers, the second
half judges them. Writes calibration.json into the model folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from everyday_figures import noun_chances
from spotchange.evaluation.everyday_fitting import fit_level, fit_temperature, fit_threshold, naming_at, softmax
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.files import write_text

FALSE_ALARMS = 0.02


def main() -> None:
    folder, saved = Path(sys.argv[1]), np.load(sys.argv[2])
    parts = {
        group: {name.removeprefix(f"{group}_"): saved[name] for name in saved if name.startswith(f"{group}_")}
        for group in ("known", "held")
    }
    half = len(parts["known"]["kind"]) // 2
    fit = {name: values[:half] for name, values in parts["known"].items()}
    judge = {name: values[half:] for name, values in parts["known"].items()}
    temperature = fit_temperature(fit["kinds"], fit["kind"])
    known = fit["kind"] >= 0
    scores = 1 - softmax(fit["kinds"], temperature)[:, 0]
    threshold = fit_threshold(scores[known], fit["kind"][known] != 0, false_alarms=FALSE_ALARMS)
    tree = everyday_nouns()
    noun_temperature = fit_temperature(fit["nouns"].reshape(-1, fit["nouns"].shape[-1]), fit["noun"].reshape(-1))
    level = fit_level(*noun_chances(fit, noun_temperature), tree)
    values = {
        "temperature": temperature,
        "threshold": threshold,
        "noun_temperature": noun_temperature,
        "noun_level": level.level,
        "fitted_on": f"{half} generated pairs of held-out things and photos",
    }
    write_text(folder / "calibration.json", json.dumps(values, indent=2) + "\n")
    print(json.dumps(values))
    print("fitted:", level)
    print("known nouns, other half:", naming_at(*noun_chances(judge, noun_temperature), tree, level.level))
    if parts["held"]:
        print("held-out nouns:", naming_at(*noun_chances(parts["held"], noun_temperature), tree, level.level))
    scores, truth = 1 - softmax(judge["kinds"], temperature)[:, 0], judge["kind"]
    changed = scores >= threshold
    hits, alarms = changed[truth > 0].mean(), changed[truth == 0].mean()
    print(f"other half: called changed {hits:.3f}, false alarms {alarms:.3f}")


if __name__ == "__main__":
    main()
