"""Calibrates an everyday model's nouns from saved scores: python benchmarks/everyday_calibrate.py MODEL RAW.npz

RAW.npz comes from `everyday_figures.py --save`. The first half of the known nouns' pairs fits the numbers, the second
half judges them. Writes them into the model folder's calibration.json; the change score in it is fitted by
`spotchange models calibrate`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from everyday_figures import noun_chances
from spotchange.evaluation.everyday_fitting import fit_level, fit_temperature, naming_at
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.files import write_text


def main() -> None:
    folder, saved = Path(sys.argv[1]), np.load(sys.argv[2])
    parts = {
        group: {name.removeprefix(f"{group}_"): saved[name] for name in saved if name.startswith(f"{group}_")}
        for group in ("known", "held")
    }
    half = len(parts["known"]["kind"]) // 2
    fit = {name: values[:half] for name, values in parts["known"].items()}
    judge = {name: values[half:] for name, values in parts["known"].items()}
    tree = everyday_nouns()
    noun_temperature = fit_temperature(fit["nouns"].reshape(-1, fit["nouns"].shape[-1]), fit["noun"].reshape(-1))
    level = fit_level(*noun_chances(fit, noun_temperature), tree)
    values = {"noun_temperature": noun_temperature, "noun_level": level.level}
    path = folder / "calibration.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    write_text(path, json.dumps(known | values, indent=2) + "\n")
    print(json.dumps(values))
    print("fitted:", level)
    print("known nouns, other half:", naming_at(*noun_chances(judge, noun_temperature), tree, level.level))
    if parts["held"]:
        print("held-out nouns:", naming_at(*noun_chances(parts["held"], noun_temperature), tree, level.level))


if __name__ == "__main__":
    main()
