"""Fits what the recognisers' scores mean: a head for our own nouns, the weights of the evidence, and the level.

python benchmarks/everyday_naming.py windows OUT.npz --classifier C.onnx --detector D.onnx --sprites DIR --photos DIR
python benchmarks/everyday_naming.py fit OUT.npz FOLDER --classifier C.onnx [--keep-head]

Windows: scanned objects and photo cut-outs pasted on photos, boxes of labelled photos as they are, and places of photos
where nothing labelled is. What is fitted sees permissively licensed rows of the training split only; the level is
chosen on permissive held-out things, and everything held out judges it.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image, ImageEnhance, ImageFilter

from everyday_library import permissive
from everyday_recognisers import add_head, kept_head
from spotchange.evaluation.everyday_fitting import fit_level, naming_at
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.everyday.recognition.evidence import Evidence

Row = dict[str, Any]
NOTHING = "nothing"
_SOURCES = yaml.safe_load((Path(__file__).parent / "everyday_sources.yaml").read_text(encoding="utf-8"))


def rows_of(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Photos:
    """Background photos of a split."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = rows_of(folder / "backgrounds.jsonl")
        self.known: dict[str, Image.Image] = {}

    def image(self, row: Row) -> Image.Image:
        if row["id"] not in self.known:
            self.known[row["id"]] = Image.open(self.folder / "backgrounds" / f"{row['id']}.webp").convert("RGB")
        return self.known[row["id"]]


def pasted(thing: Image.Image, ground: Image.Image, chance: np.random.Generator) -> tuple[Image.Image, np.ndarray]:
    """An image of 300 pixels with the thing in it, and its box as parts of the image."""
    side = 300
    scale = max(side / ground.width, side / ground.height) * chance.uniform(1.0, 1.6)
    ground = ground.resize((round(ground.width * scale), round(ground.height * scale)), Image.Resampling.BICUBIC)
    x, y = chance.integers(0, ground.width - side + 1), chance.integers(0, ground.height - side + 1)
    image = ground.crop((int(x), int(y), int(x) + side, int(y) + side))
    size = chance.uniform(48, 150)
    factor = size / max(thing.size)
    shown = thing.resize(
        (max(8, round(thing.width * factor)), max(8, round(thing.height * factor))), Image.Resampling.BICUBIC
    )
    if chance.random() < 0.5:
        shown = shown.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    left, top = int(chance.integers(4, side - shown.width - 3)), int(chance.integers(4, side - shown.height - 3))
    shadow = Image.new("RGBA", shown.size, (0, 0, 0, 0))
    shadow.putalpha(shown.getchannel("A").point(lambda value: value * 0.35).filter(ImageFilter.GaussianBlur(4)))
    image.paste(shadow, (left + 2, top + 3), shadow)
    shown_rgb = ImageEnhance.Brightness(shown.convert("RGB")).enhance(chance.uniform(0.75, 1.15))
    image.paste(shown_rgb, (left, top), shown.getchannel("A"))
    return image, np.array([left, top, left + shown.width, top + shown.height]) / side


def photographed(image: Image.Image, chance: np.random.Generator) -> Image.Image:
    if chance.random() < 0.4:
        image = image.filter(ImageFilter.GaussianBlur(chance.uniform(0.2, 0.9)))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=int(chance.integers(60, 95)))
    return Image.open(buffer).convert("RGB")


def cases(sprites: Path, photos: Photos) -> Iterator[tuple[str, str, str, bool, Image.Image, np.ndarray]]:
    """Source, noun, split, whether what is fitted may see it, image and box."""
    chance = np.random.default_rng(5)
    ids = everyday_nouns().ids
    free = {
        split: [row for row in photos.rows if row["split"] == split and permissive(row)]
        for split in ("train", "held-out")
    }

    def ground(split: str) -> Image.Image:
        return photos.image(free[split][int(chance.integers(len(free[split])))])

    for row in rows_of(sprites / "objects.jsonl"):
        split = "train" if row["split"] == "train" else "held-out"
        noun = _SOURCES["sprites"].get(row["noun"], row["noun"])
        source = "sprite of a held-out noun" if row["held_out_noun"] else "sprite"
        views = row["views"] if len(row["views"]) < 3 else [row["views"][n] for n in chance.permutation(10)[:3]]
        for view in views:
            thing = Image.open(sprites / view["file"]).convert("RGBA")
            box = thing.getchannel("A").getbbox()
            if box is None or min(box[2] - box[0], box[3] - box[1]) < 16 or noun not in ids:
                continue
            image, place = pasted(thing.crop(box), ground(split), chance)
            yield source, noun, split, True, photographed(image, chance), place
    for row in rows_of(photos.folder / "cutouts.jsonl"):
        noun = _SOURCES["cutouts"].get(row["noun"], row["noun"])
        if noun not in ids or (row["split"] == "train" and not permissive(row)):
            continue
        thing = Image.open(photos.folder / "cutouts" / f"{row['id']}.webp").convert("RGBA")
        for _ in range(3 if permissive(row) and row["split"] == "train" else 1):
            image, place = pasted(thing, ground(row["split"]), chance)
            yield "cut-out", noun, row["split"], permissive(row), photographed(image, chance), place
    for row in photos.rows:
        if row["split"] == "train" and not permissive(row):
            continue
        image = photos.image(row)
        size = np.array([image.width, image.height] * 2)
        for each in row["instances"][:12]:
            noun = _SOURCES["cutouts"].get(each["noun"], each["noun"])
            x, y, width, height = each["box"]
            if (
                noun in ids
                and not each.get("crowd")
                and min(width, height) >= 24
                and width * height < 0.7 * size[0] * size[1]
            ):
                yield (
                    "photo",
                    noun,
                    row["split"],
                    permissive(row),
                    image,
                    np.array([x, y, x + width, y + height]) / size,
                )
        free_box = row.get("free_box")
        if free_box and min(free_box[2:]) > 60:
            x, y, width, height = free_box
            side = chance.uniform(0.5, 0.9) * min(width, height)
            left, top = x + chance.uniform(0, width - side), y + chance.uniform(0, height - side)
            place = np.array([left, top, left + side, top + side]) / size
            yield "empty", NOTHING, row["split"], permissive(row), image, place


def windows(options: argparse.Namespace) -> None:
    import onnxruntime

    from spotchange.everyday.recognition.detector import Detector
    from spotchange.everyday.recognition.recognisers import detected_near, prepared, window

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    classifier, detector = (
        onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        for path in (options.classifier, options.detector)
    )
    detect = Detector(detector)
    chance = np.random.default_rng(9)
    kept: dict[str, list[Any]] = {}
    for source, noun, split, fits, image, place in cases(options.sprites, Photos(options.photos)):
        jitter = chance.normal(0, 0.05, 4) * np.tile(place[2:] - place[:2], 2)
        shown = window(image, place + jitter, room=float(chance.uniform(1.1, 1.6)))
        features, classes = classifier.run(["features", "classes"], {"pictures": prepared(shown)[None]})
        held = split == "held-out"
        found = detected_near(detect([image])[0], (place + jitter).clip(0, 1)) if held else np.zeros(91, np.float32)
        values = {
            "source": source, "noun": noun, "held": held, "fits": fits, "features": features[0].astype(np.float16),
            "classes": classes[0].astype(np.float16), "detected": found,
        }  # fmt: skip
        for name, value in values.items():
            kept.setdefault(name, []).append(value)
        if len(kept["noun"]) % 500 == 0:
            print(len(kept["noun"]), flush=True)
    np.savez_compressed(options.out, **{name: np.array(values) for name, values in kept.items()})


def fitted_head(features: np.ndarray, nouns: np.ndarray, known: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Weights and offsets of a linear classifier, rare nouns counting nearly as much as common ones."""
    import torch

    torch.manual_seed(3)
    targets = torch.tensor([known.index(noun) for noun in nouns])
    mean, scale = features.mean(axis=0), features.std(axis=0) + 0.05
    inputs = torch.from_numpy((features - mean) / scale)
    counts = torch.bincount(targets, minlength=len(known)).float()
    balance = counts.clamp(min=1) ** -0.5
    layer = torch.nn.Linear(inputs.shape[1], len(known))
    torch.nn.init.zeros_(layer.weight)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=3e-3, weight_decay=2.0)
    for _ in range(220):
        loss = torch.nn.functional.cross_entropy(layer(inputs), targets, weight=balance, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weight = layer.weight.detach().numpy() / scale
    return weight, layer.bias.detach().numpy() - weight @ mean


def fit(options: argparse.Namespace) -> None:
    """The head goes into the classifier's graph, what scores mean into naming.json."""
    saved = np.load(options.windows)
    data = {name: saved[name] for name in saved}
    tree, chance = everyday_nouns(), np.random.default_rng(1)
    train = data["fits"] & ~data["held"]
    named, counts = np.unique(data["noun"][train], return_counts=True)
    known = [str(noun) for noun, count in zip(named, counts, strict=True) if count >= 3 and noun != NOTHING]
    used = train & np.isin(data["noun"], [*known, NOTHING])
    features = data["features"].astype(np.float32)
    if options.keep_head:
        weight, bias = kept_head(options.folder / "classifier.onnx")
    else:
        weight, bias = fitted_head(features[used], data["noun"][used], [*known, NOTHING])
    scores = features @ weight.T.astype(np.float32) + bias.astype(np.float32)
    ids = tree.ids | {NOTHING: len(tree.names)}
    truth = np.array([ids[noun] for noun in data["noun"]])
    judged = data["held"] & (data["noun"] != NOTHING)
    fits = judged & data["fits"] & (data["source"] != "sprite of a held-out noun")
    first = fits & (np.arange(len(fits)) % 2 == 0)

    def chances(evidence: Evidence, rows: np.ndarray) -> np.ndarray:
        found = evidence.chances(scores[rows], data["classes"][rows].astype(np.float32), data["detected"][rows])
        return found[:, :-1] / found[:, :-1].sum(axis=1, keepdims=True)

    def loss(evidence: Evidence) -> float:
        found = chances(evidence, first)
        return float(-np.log(found[np.arange(len(found)), truth[first]] + 1e-6).mean())

    best = Evidence(known=tuple(known))
    least = loss(best)
    for turn in range(options.tries):
        spread = 0.7 if turn < options.tries // 2 else 0.25
        tried = replace(
            best,
            **{
                name: float(getattr(best, name) * np.exp(chance.normal(0, spread)))
                for name in ("head", "imagenet", "detector", "head_floor", "imagenet_floor", "temperature")
            },
        )
        if (value := loss(tried)) < least:
            best, least = tried, value
    level = fit_level(chances(best, fits & ~first), truth[fits & ~first], tree)
    best = replace(best, level=level.level)
    print(f"{len(known)} nouns, {used.sum()} windows; loss {least:.3f}; {best!r}\nfitted level: {level}")
    arms = {
        "all": best,
        "head alone": replace(best, imagenet=1e-6, detector=0.0),
        "ImageNet alone": replace(best, head=1e-6, detector=0.0),
        "classifier, both heads": replace(best, detector=0.0),
        "detector and ImageNet": replace(best, head=1e-6),
    }
    for source in np.unique(data["source"][judged]):
        rows = judged & (data["source"] == source)
        for name, arm in arms.items():
            found = chances(arm, rows)
            naming = naming_at(found, truth[rows], tree, best.level)
            exact = float((found.argmax(axis=1) == truth[rows]).mean())
            told = f"best guess {exact:.3f}, said {naming.said:.3f}, right {naming.right:.3f}"
            print(f"{source}, {rows.sum()}: {name}: {told}")
    options.folder.mkdir(parents=True, exist_ok=True)
    values = {name: value for name, value in asdict(best).items() if name != "tree"}
    values |= {"known": known, "fitted_on": f"{used.sum()} windows, weights and level on {fits.sum()} held-out ones"}
    values = {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in values.items()}
    (options.folder / "naming.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    if not options.keep_head:
        head = weight.astype(np.float32), bias.astype(np.float32)
        add_head(options.classifier, options.folder / "classifier.onnx", *head)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    first = verbs.add_parser("windows")
    first.add_argument("out", type=Path)
    for name in ("--classifier", "--detector", "--sprites", "--photos"):
        first.add_argument(name, type=Path, required=True)
    second = verbs.add_parser("fit")
    second.add_argument("windows", type=Path)
    second.add_argument("folder", type=Path)
    second.add_argument("--classifier", type=Path, required=True)
    second.add_argument("--keep-head", action="store_true", help="fit the weights of the witnesses only")
    second.add_argument("--tries", type=int, default=160)
    options = parser.parse_args()
    {"windows": windows, "fit": fit}[options.verb](options)


if __name__ == "__main__":
    main()
