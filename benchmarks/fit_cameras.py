"""Where the cameras of a CLEVR-like scene stood, from its images alone. Needs scipy.

python benchmarks/fit_cameras.py FOLDER PATTERN PATTERN PATTERN [--truth scenes.jsonl] [--out FILE]

A pattern names one image of a scene with {} in place of its number, e.g. CLEVR_default_{}.jpg. Objects are cut out by
hue, boxes of one colour are matched over the three images, and cameras and objects are fitted together: a camera
looks at the origin and has three unknowns, an object has its place, its turn, one of three shapes and one of two known
sizes, and predicts its boxes. Azimuths are relative to the first camera. docs/decisions/0010-camera.md has the result.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy import ndimage
from scipy.optimize import least_squares, linear_sum_assignment

HOME = np.array([7.48, -6.51, 5.34])
RADIUS, HEIGHT = float(np.hypot(*HOME[:2])), float(HOME[2])
FOCAL = 240 / (32 / 35 / 2)  # pixels, for images of 480x320
HUES = {"red": 0, "blue": 229, "green": 114, "brown": 28, "purple": 276, "cyan": 180, "yellow": 55}
SIZES = (0.35, 0.7)
KINDS = [(shape, half) for shape in ("sphere", "cube", "cylinder") for half in SIZES]
PIXEL = 2.0  # spread of a box's edges
START = np.array([RADIUS, HEIGHT, RADIUS, 0, HEIGHT, RADIUS, 0, HEIGHT])  # radius, height; then radius, azimuth, height

Array = np.ndarray[Any, Any]


def boxes(path: Path) -> list[tuple[int, float, float, float, float]]:
    """Colour, left, right, top and bottom of every coloured object that the image's edge does not cut."""
    image = np.asarray(Image.open(path).convert("HSV")).astype(float)
    hue, saturation = image[..., 0] * 360 / 255, image[..., 1] / 255
    chroma = saturation * image[..., 2]
    apart = np.stack([np.abs((hue - each + 180) % 360 - 180) for each in HUES.values()])
    nearest = apart.argmin(0)
    found = []
    for color in range(len(HUES)):
        mask = (saturation > 0.38) & (chroma > 22) & (nearest == color) & (apart[color] < 26)
        mask = ndimage.binary_closing(ndimage.binary_opening(mask), iterations=3)
        labels, _ = ndimage.label(mask)
        for number, (rows, columns) in enumerate(ndimage.find_objects(labels), start=1):
            if ndimage.binary_fill_holes(labels[rows, columns] == number).sum() < 260:
                continue
            if columns.start > 0 and rows.start > 0 and columns.stop < 480 and rows.stop < 320:
                found.append((color, columns.start, columns.stop, rows.start, rows.stop))
    return found


def cameras(unknowns: Array) -> Array:
    """(3, 3): places of the three cameras."""
    radius, azimuth = unknowns[[0, 2, 5]], np.array([0.0, unknowns[3], unknowns[6]])
    return np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), unknowns[[1, 4, 7]]], 1)


def project(camera: Array, points: Array) -> tuple[Array, Array, Array]:
    """Column, row and depth of points (n, 3)."""
    right, up, forward = _frame(camera)
    offset = points - camera
    depth = offset @ forward
    return 240 + FOCAL * (offset @ right) / depth, 160 - FOCAL * (offset @ up) / depth, depth


def on_plane(camera: Array, column: float, row: float, height: float) -> Array:
    """x and y where the ray through a pixel has that height."""
    right, up, forward = _frame(camera)
    ray = forward + (column - 240) / FOCAL * right + (160 - row) / FOCAL * up
    return (camera + (height - camera[2]) / ray[2] * ray)[:2]


def _frame(camera: Array) -> tuple[Array, Array, Array]:
    forward = -camera / np.linalg.norm(camera)
    right = np.array([forward[1], -forward[0], 0.0]) / np.hypot(*forward[:2])
    return right, np.cross(right, forward), forward


def _skeleton(shape: str, half: float) -> tuple[Array, float]:
    """Centres of the balls that a rounded shape is the hull of, and their radius."""
    if shape == "sphere":
        return np.array([[0, 0, half]]), half
    rounding = (0.21 if shape == "cube" else 0.07) * half
    inner, levels = half - rounding, (rounding, 2 * half - rounding)
    if shape == "cube":
        return np.array([[a * inner, b * inner, z] for a in (-1, 1) for b in (-1, 1) for z in levels]), rounding
    turns = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    return np.array([[inner * np.cos(t), inner * np.sin(t), z] for t in turns for z in levels]), rounding


SKELETONS = {kind: _skeleton(*kind) for kind in KINDS}


def box_of(camera: Array, pose: Array, kind: tuple[str, float]) -> Array:
    """Left, right, top and bottom that an object at `pose` (x, y, turn) has in an image."""
    points, rounding = SKELETONS[kind]
    cos, sin = np.cos(pose[2]), np.sin(pose[2])
    turned = points @ np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]]) + [pose[0], pose[1], 0]
    column, row, depth = project(camera, turned)
    reach = rounding * FOCAL / depth
    across, along = reach * np.hypot(1, (column - 240) / FOCAL), reach * np.hypot(1, (row - 160) / FOCAL)
    return np.array([(column - across).min(), (column + across).max(), (row - along).min(), (row + along).max()])


def matched(images: list[list[tuple[int, float, float, float, float]]], places: Array, limit: float) -> Array:
    """(objects, 3, 5): boxes of one object in the three images and whether it was found there."""
    rows = []
    for color in range(len(HUES)):
        have = [[np.array(box[1:]) for box in image if box[0] == color] for image in images]
        objects = [np.zeros((3, 5)) for _ in have[0]]
        for one, box in zip(objects, have[0], strict=True):
            one[0] = [*box, 1]
        for second in (1, 2):
            if have[0] and have[second]:
                costs = np.array([[_cost(a, b, places[0], places[second]) for b in have[second]] for a in have[0]])
                for i, j in zip(*linear_sum_assignment(costs), strict=True):
                    if costs[i, j] < limit:
                        objects[i][second] = [*have[second][j], 1]
        rows += [one for one in objects if one[:, 4].sum() >= 2]
    return np.array(rows).reshape(-1, 3, 5)


def _cost(first: Array, second: Array, camera: Array, other: Array) -> float:
    """How badly a box of the second image continues one of the first, for the better of both sizes."""
    best = 1e3
    side, other_side = (float(np.sqrt((b[1] - b[0]) * (b[3] - b[2]))) for b in (first, second))
    for half in SIZES:
        place = on_plane(camera, (first[0] + first[1]) / 2, (first[2] + first[3]) / 2, half)
        point = np.array([[*place, half]])
        _, _, depth = project(camera, point)
        column, row, depth_there = project(other, point)
        if depth[0] < 1 or depth_there[0] < 1:
            continue
        miss = np.hypot(column[0] - (second[0] + second[1]) / 2, row[0] - (second[2] + second[3]) / 2) / 8
        growth = abs(np.log(other_side / side) - np.log(depth[0] / depth_there[0])) * 8
        best = min(best, miss + growth + 4 * abs(np.log(side / (2 * half * FOCAL / depth[0])) - 0.1))
    return best


def best_kind(places: Array, seen: Array) -> tuple[tuple[str, float], Array]:
    """Shape, size and pose that explain an object's boxes best under given cameras."""
    found: list[tuple[float, tuple[str, float], Array]] = []
    first = int(seen[:, 4].argmax())
    for kind in KINDS:
        middle = on_plane(places[first], seen[first, :2].mean(), seen[first, 2:4].mean(), kind[1])

        def misses(pose: Array, kind: tuple[str, float] = kind) -> Array:
            parts = [(box_of(places[k], pose, kind) - seen[k, :4]) * seen[k, 4] / PIXEL for k in range(3)]
            return np.concatenate([*parts, np.maximum(np.abs(pose[:2]) - 3.05, 0) / 0.1])

        for turn in (0.2, 0.95) if kind[0] == "cube" else (0.4,):
            fit = least_squares(misses, [*np.clip(middle, -3, 3), turn], loss="soft_l1", max_nfev=12)
            found.append((fit.cost + 0.3 * (kind[0] == "cube"), kind, fit.x))
    return min(found, key=lambda each: each[0])[1:]


def fit_together(unknowns: Array, seen: Array, kinds: list[tuple[str, float]], poses: Array) -> tuple[Any, Array]:
    """Cameras and poses at once; gives scipy's result and the residuals (objects, 3, 4) in `PIXEL`s."""
    count = len(kinds)

    def misses(values: Array) -> Array:
        places, at = cameras(values[:8]), values[8:].reshape(count, 3)
        parts = [
            (box_of(places[k], at[i], kinds[i]) - seen[i, k, :4]) * seen[i, k, 4] / PIXEL
            for i in range(count)
            for k in range(3)
        ]
        parts.append(np.maximum(np.abs(at[:, :2]) - 3.05, 0).ravel() / 0.1)
        parts += [(values[[0, 1, 2, 4, 5, 7]] - START[[0, 1, 2, 4, 5, 7]]) / 5.0, values[[3, 6]] / 0.5]
        return np.concatenate(parts)

    fit = least_squares(misses, np.concatenate([unknowns, poses.ravel()]), loss="soft_l1", max_nfev=25)
    return fit, misses(fit.x)[: 12 * count].reshape(count, 3, 4)


def fit_scene(images: list[list[tuple[int, float, float, float, float]]]) -> dict[str, Any] | None:
    """Radius and height of the first camera, radius, azimuth and height of the others; None with too few objects."""
    unknowns, residual = START, np.zeros(0)
    for limit in (9, 6, 5, 5):
        places = cameras(unknowns)
        seen = matched(images, places, limit)
        if len(seen) < 3:
            return None
        kinds, poses = zip(*(best_kind(places, each) for each in seen), strict=True)
        fit, misses = fit_together(unknowns, seen, list(kinds), np.array(poses))
        seen[:, :, 4] *= np.abs(misses).max(2) <= 4
        kept = seen[:, :, 4].sum(1) >= 2
        if kept.sum() < 3:
            return None
        poses = fit.x[8:].reshape(-1, 3)[kept]
        fit, residual = fit_together(
            fit.x[:8], seen[kept], [k for k, keep in zip(kinds, kept, strict=True) if keep], poses
        )
        unknowns = fit.x[:8]
    used = seen[kept][:, :, 4]
    spread = float(np.sqrt((residual**2).sum() / (4 * used.sum()))) * PIXEL
    return {"unknowns": unknowns.round(4).tolist(), "objects": int(kept.sum()), "residual_pixels": round(spread, 3)}


def summary(fits: list[dict[str, Any]]) -> dict[str, Any]:
    """Spreads of the first camera and of the steps to the others."""
    values = np.array([each["unknowns"] for each in fits])
    radius, height = values[:, [0, 2, 5]], values[:, [1, 4, 7]]
    azimuth = np.stack([0 * values[:, 0], values[:, 3], values[:, 6]], 1)
    toward, across = radius * np.cos(azimuth) - radius[:, :1], radius * np.sin(azimuth)
    rise = height - height[:, :1]
    report: dict[str, Any] = {
        "scenes": len(fits),
        "first height": _spread(height[:, 0]),
        "first radius": _spread(radius[:, 0]),
    }
    for k in (1, 2):
        report[f"picture {k + 1}"] = {
            "up": _spread(rise[:, k]),
            "across": _spread(across[:, k]),
            "toward": _spread(toward[:, k]),
            "correlation of height and step up": round(float(np.corrcoef(height[:, 0], rise[:, k])[0, 1]), 3),
        }
    return report


def _spread(values: Array) -> dict[str, float]:
    named = {"mean": values.mean(), "deviation": values.std(), "least": values.min(), "most": values.max()}
    return {name: round(float(value), 3) for name, value in named.items()}


def errors(fits: dict[str, dict[str, Any]], truth: Path) -> dict[str, float]:
    """Median errors against the cameras of a generator's `scenes.jsonl`."""
    found = []
    for line in truth.read_text(encoding="utf-8").splitlines():
        scene = json.loads(line)
        if scene["id"] in fits:
            known = np.array([scene["cameras"][name] for name in ("before", "after", "same")])
            got = np.array(fits[scene["id"]]["unknowns"])
            steps = got[[4, 7]] - got[1] - (known[1:, 2] - known[0, 2])
            found.append([got[0] - np.hypot(*known[0, :2]), got[1] - known[0, 2], *steps])
    middle = np.median(np.abs(found), 0)
    return dict(zip(("first radius", "first height", "step up 2", "step up 3"), middle.round(3).tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("patterns", nargs=3)
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--scenes", type=int, help="the first so many only")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    name = re.compile(re.escape(arguments.patterns[0]).replace(r"\{\}", r"(\w+)"))
    numbers = sorted(found[1] for path in arguments.folder.iterdir() if (found := name.fullmatch(path.name)))
    fits = {}
    for number in numbers[: arguments.scenes]:
        fit = fit_scene([boxes(arguments.folder / pattern.format(number)) for pattern in arguments.patterns])
        if fit is not None and fit["residual_pixels"] < 3:
            fits[number] = fit
    report = summary(list(fits.values()))
    if arguments.truth is not None:
        report["median errors"] = errors(fits, arguments.truth)
    print(json.dumps(report, indent=2))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(fits, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
