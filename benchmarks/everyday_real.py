"""Whoever answers everyday images, on real pairs and on pairs without a change.

python benchmarks/everyday_real.py MODEL --pairs DATASET [--photos FOLDER] [--out FILE.jsonl] [--controls 64]

MODEL is "everyday", "bundled" or the folder of a trained model. DATASET holds metadata.jsonl with pairs that all have a
change; PHOTOS any images, or with `backgrounds.jsonl` beside their folder those of its held-out split. Controls are
made from them: one re-encoded, one 8 % brighter, one cropped by 3 to 5 pixels and rescaled, one shifted as by hand.
"Place": the hottest point lies in the tenth of the image where pixels differ most; one in ten by chance.
"""

from __future__ import annotations

import argparse
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance

from spotchange.answering import Answer, Answerer, CaptionOptions, ImagePair, build_answerer


def reencoded(image: Image.Image, chance: random.Random) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=chance.randint(35, 85))
    return Image.open(io.BytesIO(buffer.getvalue())).convert("RGB")


def brighter(image: Image.Image, chance: random.Random) -> Image.Image:
    return ImageEnhance.Brightness(image).enhance(1.08)


def cropped(image: Image.Image, chance: random.Random) -> Image.Image:
    edges = [chance.randint(3, 5) for _ in range(4)]
    box = (edges[0], edges[1], image.width - edges[2], image.height - edges[3])
    return image.resize(image.size, Image.Resampling.BICUBIC, box=box)


def shifted(image: Image.Image, chance: random.Random) -> Image.Image:
    angle, zoom = chance.uniform(-1, 1), chance.uniform(1.02, 1.04)
    turned = image.rotate(angle, Image.Resampling.BICUBIC)
    width, height = image.width / zoom, image.height / zoom
    left = (image.width - width) / 2 + chance.uniform(-0.008, 0.008) * image.width
    top = (image.height - height) / 2 + chance.uniform(-0.008, 0.008) * image.height
    return turned.resize(image.size, Image.Resampling.BICUBIC, box=(left, top, left + width, top + height))


CONTROLS: dict[str, Callable[[Image.Image, random.Random], Image.Image]] = {
    "re-encoded": reencoded,
    "8 % brighter": brighter,
    "cropped": cropped,
    "hand-held": shifted,
}


def on_difference(answer: Answer, rows: int = 18, columns: int = 18) -> bool:
    """Whether the hottest point is in the tenth of an 18 x 18 grid whose pixels differ most."""
    size = (columns * 16, rows * 16)
    before, after = (np.asarray(each.resize(size), np.float32) for each in (answer.before, answer.after))
    after = after * (before.mean() / max(after.mean(), 1e-3))
    apart = np.abs(before - after).mean(axis=2).reshape(rows, 16, columns, 16).mean(axis=(1, 3))
    heat = answer.heat.max(axis=0)
    down, across = np.unravel_index(int(heat.argmax()), heat.shape)
    place = int((down + 0.5) * rows / heat.shape[0]), int((across + 0.5) * columns / heat.shape[1])
    return bool(apart[place] >= np.quantile(apart, 0.9))


def answered(answerer: Answerer, pairs: list[tuple[str, ImagePair]], batch: int = 8) -> Iterator[tuple[str, Answer]]:
    for first in range(0, len(pairs), batch):
        part = pairs[first : first + batch]
        outcomes = answerer.answer([pair for _, pair in part], CaptionOptions())
        for (name, _), outcome in zip(part, outcomes, strict=True):
            assert isinstance(outcome, Answer), outcome
            yield name, outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--controls", type=int, default=64)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    answerer = build_answerer(options.model)
    lines: list[dict[str, Any]] = []
    if options.pairs is not None:
        lines += real_pairs(answerer, options.pairs)
    if options.photos is not None:
        lines += controls(answerer, options.photos, options.controls)
    if options.out is not None:
        options.out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def real_pairs(answerer: Answerer, folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "metadata.jsonl").read_text(encoding="utf-8").splitlines()]
    pairs = [
        (row["id"], ImagePair.of(folder / row["before_file_name"], folder / row["after_file_name"])) for row in rows
    ]
    lines = []
    for row, (name, answer) in zip(rows, answered(answerer, pairs), strict=True):
        lines.append(_line(name, answer) | {"truth": row["captions"][0], "place": on_difference(answer)})
    for subset in ["", *dict.fromkeys(name.split("-")[0] for name, _ in pairs)]:
        part = [line for line in lines if line["id"].startswith(subset)]
        changed, place = (np.mean([line[key] for line in part]) for key in ("changed", "place"))
        print(f"{subset or 'all'}: {len(part)} pairs, called changed {changed:.3f}, place {place:.3f}", flush=True)
    return lines


def controls(answerer: Answerer, folder: Path, count: int) -> list[dict[str, Any]]:
    files = sorted(path for path in folder.iterdir() if path.suffix in (".webp", ".jpg", ".png"))
    listed = folder.parent / "backgrounds.jsonl"
    if listed.exists():
        rows = [json.loads(line) for line in listed.read_text(encoding="utf-8").splitlines()]
        held_out = {row["id"] for row in rows if row["split"] == "held-out"}
        files = [path for path in files if path.stem in held_out]
    chance = random.Random(7)
    chosen = chance.sample(files, min(count, len(files)))
    lines = []
    for name, change in CONTROLS.items():
        pairs = []
        for path in chosen:
            image = Image.open(path).convert("RGB")
            pairs.append((f"control-{name}-{path.stem}", ImagePair.of(image, change(image, chance))))
        part = [_line(each, answer) for each, answer in answered(answerer, pairs)]
        print(f"{name}: called changed {np.mean([line['changed'] for line in part]):.3f} of {len(part)}", flush=True)
        lines += part
    return lines


def _line(name: str, answer: Answer) -> dict[str, Any]:
    result = answer.result
    return {
        "id": name,
        "changed": result.changed,
        "score": result.change_score,
        "kind": result.change_type,
        "caption": result.caption,
        "model": result.model,
    }


if __name__ == "__main__":
    main()
