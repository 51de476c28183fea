"""How close our images come to Blender's: the same scenes, compared pixel by pixel.

    python benchmarks/fidelity.py --scenes DIR [--first 0 --last 140] [--out DIR]

Prints median SSIM, the absolute error (mean over RGB, of 255) over object pixels, over metal, rubber and each shape,
for the scenes the renderer's constants were fitted on (the first half) and for the rest. With --out it writes the
ten worst images beside Blender's; with --sheet a small side-by-side figure.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from spotchange.scene import COLORS, MATERIAL, MATERIALS, MAX_OBJECTS, SHAPE, SHAPES, SIZES, SceneBatch
from spotchange.scenes import appearance as look
from spotchange.scenes.rendering.renderer import render

WIDTH, HEIGHT = 480, 320
NAMES = ("before", "after", "same")
FITTED_ON = 70  # scenes with a smaller number were used to fit the renderer's constants
DEFAULT = Path(os.environ.get("SPOTCHANGE_SHARED", Path(__file__).resolve().parents[2] / "shared"))


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The scenes of a folder of Blender images."""
    with open(folder / "scenes.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def batch_of(rows: list[dict[str, Any]]) -> SceneBatch:
    """The same scenes for our renderer."""
    scenes = len(rows)
    attributes = np.full((scenes, 2, MAX_OBJECTS, 4), -1, np.int8)
    placement = np.zeros((scenes, 2, MAX_OBJECTS, 3), np.float32)
    for s, row in enumerate(rows):
        for version, name in enumerate(("before", "after")):
            for slot, thing in enumerate(row[name]):
                attributes[s, version, slot] = (
                    COLORS.index(thing["color"]),
                    SHAPES.index(thing["shape"]),
                    MATERIALS.index(thing["material"]),
                    SIZES.index(thing["size"]),
                )
                placement[s, version, slot] = (*thing["xy"], thing["theta"])
    return SceneBatch(
        scene_id=np.array([int(row["id"]) for row in rows], np.int64),
        count=np.array([[len(row["before"]), len(row["after"])] for row in rows], np.int32),
        attributes=attributes,
        placement=placement,
        camera=np.array([[row["cameras"][name] for name in NAMES] for row in rows], np.float32),
        lamps=np.array(
            [[row["lamp_offsets"][name] for name in ("Lamp_Key", "Lamp_Back", "Lamp_Fill")] for row in rows], np.float32
        ),
        look=look.neutral(scenes),
        change=np.ones(scenes, np.int8),
        target=np.zeros((scenes, 2), np.int8),
    )


def grey(image: np.ndarray) -> np.ndarray:
    """Luma, as images are usually turned grey."""
    return image.astype(np.float64) @ np.array([0.299, 0.587, 0.114])


def ssim(one: np.ndarray, other: np.ndarray) -> float:
    """Mean structural similarity of two grey images: 11x11 Gaussian window of sigma 1.5, range 255."""
    window = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    window /= window.sum()

    def smooth(values: np.ndarray) -> np.ndarray:
        rows = np.lib.stride_tricks.sliding_window_view(values, 11, axis=0) @ window
        return np.lib.stride_tricks.sliding_window_view(rows, 11, axis=1) @ window

    a, b = smooth(one), smooth(other)
    aa, bb, ab = smooth(one * one) - a * a, smooth(other * other) - b * b, smooth(one * other) - a * b
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    return float(np.mean((2 * a * b + c1) * (2 * ab + c2) / ((a * a + b * b + c1) * (aa + bb + c2))))


def compare(ours: np.ndarray, theirs: np.ndarray, ids: np.ndarray, attributes: np.ndarray) -> dict[str, float]:
    """Figures of one image; NaN where it shows nothing of a kind."""
    error = np.abs(ours.astype(np.float64) - theirs).mean(axis=-1)
    seen = attributes[np.maximum(ids.astype(int) - 1, 0)]
    things = ids > 0
    masks = {"objects": things, "ground": ~things}
    for index, name in enumerate(MATERIALS):
        masks[name] = things & (seen[..., MATERIAL] == index)
        for kind, shape in enumerate(SHAPES):
            masks[f"{name} {shape}"] = masks[name] & (seen[..., SHAPE] == kind)
    figures = {name: float(error[mask].mean()) if mask.any() else float("nan") for name, mask in masks.items()}
    return {"ssim": ssim(grey(ours), grey(theirs)), **figures}


def measure(folder: Path, rows: list[dict[str, Any]], quality: str, device: str) -> list[dict[str, Any]]:
    """Draw and compare every image of the rows."""
    results = []
    for row in rows:
        batch = batch_of([row])
        drawn = render(batch, width=WIDTH, height=HEIGHT, quality=quality, device=device)
        images, ids = (
            np.asarray(part if isinstance(part, np.ndarray) else part.cpu()) for part in (drawn.images, drawn.ids)
        )
        for image, name in enumerate(NAMES):
            ours = images[0, image].transpose(1, 2, 0)
            theirs = np.asarray(Image.open(folder / f"{row['id']}_{name}.jpg").convert("RGB"))
            version = 1 if name == "after" else 0
            figures = compare(ours, theirs, ids[0, image], batch.attributes[0, version])
            results.append({"id": f"{row['id']}_{name}", "ours": ours, "theirs": theirs, **figures})
    return results


def print_table(results: list[dict[str, Any]]) -> None:
    """Medians over images, for fitted and for unseen scenes."""
    groups = {
        "all": results,
        "fitted": [r for r in results if int(r["id"][:4]) < FITTED_ON],
        "unseen": [r for r in results if int(r["id"][:4]) >= FITTED_ON],
    }
    groups = {name: group for name, group in groups.items() if group}
    print(f"{'median over pictures':22}" + "".join(f"{f'{name} ({len(group)})':>16}" for name, group in groups.items()))
    for key in (key for key in results[0] if key not in ("id", "ours", "theirs")):
        seen = [[r[key] for r in group if not np.isnan(r[key])] for group in groups.values()]
        values = [np.median(values) if values else float("nan") for values in seen]
        print(f"{key:22}" + "".join(f"{value:16.3f}" for value in values))


def side_by_side(results: list[dict[str, Any]], scale: float = 1.0) -> Image.Image:
    """Blender left, ours right, one row an image."""
    width, height = int(WIDTH * scale), int(HEIGHT * scale)
    sheet = Image.new("RGB", (2 * width, height * len(results)))
    for index, result in enumerate(results):
        for column, key in enumerate(("theirs", "ours")):
            sheet.paste(
                Image.fromarray(result[key]).resize((width, height), Image.Resampling.LANCZOS),
                (column * width, index * height),
            )
    return sheet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=Path, default=DEFAULT / "data" / "blender-clevr-dev")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=140)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--quality", default="faithful")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="folder for the ten worst images")
    parser.add_argument("--sheet", type=Path, help="side-by-side figure of a few scenes")
    arguments = parser.parse_args()
    if not (arguments.scenes / "scenes.jsonl").exists():
        raise SystemExit(f"no scenes.jsonl in {arguments.scenes}")
    rows = read_rows(arguments.scenes)[arguments.first : arguments.last : arguments.step]
    results = measure(arguments.scenes, rows, arguments.quality, arguments.device)
    print_table(results)
    worst = sorted(results, key=lambda result: result["ssim"] - result["objects"] / 50)[:10]
    print("worst: " + ", ".join(f"{result['id']} ({result['ssim']:.3f}, {result['objects']:.1f})" for result in worst))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for rank, result in enumerate(worst):
            side_by_side([result]).save(arguments.out / f"{rank:02d}_{result['id']}.png")
    if arguments.sheet:
        side_by_side(results[:: max(len(results) // 4, 1)][:4], 0.75).save(arguments.sheet, quality=85)


if __name__ == "__main__":
    main()
