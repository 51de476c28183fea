"""Fits how light lies on table-top scenes (answering/gate_light.json), on generated scenes and on nothing else.

python benchmarks/gate_light.py SCENES [SCENES ...] [--check FOLDER ...] [--write]

SCENES are data sets of `spotchange generate`; half of the scenes fit the numbers, the other half and the images of
`--check` (other scenes, photographs) are judged by them: the quantiles of their distance, and how many the gate's
thumbnail takes for scenes whose light does not.
"""

from __future__ import annotations

import argparse
import json
from importlib import resources
from pathlib import Path

import numpy as np
from PIL import Image

from spotchange.answering.gate import _SCENE, OTHER_LIGHT, SceneLight, light_numbers, scene_likeness

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")


def images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)


def opened(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def fitted(numbers: np.ndarray) -> SceneLight:
    """Mean, and what makes the spread round it (the covariance, with a little more in each direction) round."""
    spread = np.cov(numbers.T)
    spread += np.diag(0.01 * np.diag(spread) + 1e-6)
    whiten = np.linalg.cholesky(np.linalg.inv(spread))
    return SceneLight(mean=numbers.mean(axis=0).astype(np.float32), whiten=whiten.astype(np.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", type=Path, nargs="+")
    parser.add_argument("--check", type=Path, nargs="*", default=[])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    # Three images of a scene follow one another; blocks of them keep a scene in one half.
    listed = {folder: images(folder) for folder in options.scenes}
    half = {folder: max(1, len(paths) // 2) for folder, paths in listed.items()}
    known = np.stack([light_numbers(opened(path)) for folder in listed for path in listed[folder][: half[folder]]])
    light = fitted(known.astype(np.float64))
    judged = {folder: paths[half[folder] :] for folder, paths in listed.items()}
    judged |= {folder: images(folder) for folder in options.check}
    for folder, paths in judged.items():
        found = [(light.distance(each), scene_likeness().probability(each)) for each in map(opened, paths)]
        distances = np.array([distance for distance, likeness in found if likeness >= _SCENE])
        quantiles = ", ".join(f"{each:.1f}" for each in np.quantile(distances, (0, 0.01, 0.5, 0.99, 1)))
        passed = int((distances < OTHER_LIGHT).sum())
        print(
            f"{folder}: {len(paths)} images, {len(distances)} like scenes, {passed} of these lit like one; {quantiles}"
        )
    if options.write:
        values = {name: np.asarray(each, np.float64).round(6).tolist() for name, each in vars(light).items()}
        path = resources.files("spotchange.answering").joinpath("gate_light.json")
        Path(str(path)).write_text(json.dumps(values) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
