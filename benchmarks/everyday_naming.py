"""Fits what the detector's and the second look's scores mean: the weights of the evidence, and when a noun is said.

python benchmarks/everyday_naming.py pairs OUT.npz DATASET
python benchmarks/everyday_naming.py photos OUT.npz PHOTOS
python benchmarks/everyday_naming.py fit NAMING.json PHOTOS.npz PAIRS.npz...
python benchmarks/everyday_naming.py judge NAMING.json FILE.npz...

`pairs`: the places that are looked at while the generated pairs of DATASET are answered (`everyday_generated.py make`
on a library that holds half of the held-out things; the other half judges). `photos`: labelled boxes of held-out,
permissively licensed photos as they are.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from everyday_library import permissive
from spotchange.answering import CaptionOptions, ImagePair
from spotchange.answering.photo_model import PhotoModel
from spotchange.answering.photos import PhotoAnswerer
from spotchange.evaluation.everyday_fitting import Naming, naming_at
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.everyday.recognition.evidence import Chances, Evidence
from spotchange.everyday.recognition.recognisers import Recognisers, Spot, cut_window, detected_near, recognisers_folder
from spotchange.models.weights.bundled import everyday_folder

TREE = everyday_nouns()
CLOSER = 0.95
PHOTOS = 0.3  # weight of photos; the rest is that of generated pairs
RIGHT = 0.92  # of places in pairs and in photos, so that nine of ten sentences are: some tell of a place beside it
_FITTED = ("detector", "second", "second_floor", "temperature")


class Recording(Recognisers):
    """Recognisers that keep what they looked at."""

    spots: list[Spot]

    def look(self, spots: Any) -> Chances:
        self.spots += spots
        return super().look(spots)


class Places:
    """What was seen at places whose noun is known; places of one group are looks at one thing."""

    def __init__(self, namer: Any) -> None:
        self.namer = namer
        self.columns: dict[str, list[Any]] = {"second": [], "detected": [], "noun": [], "group": []}

    def add(self, spot: Spot, noun: str, group: str) -> None:
        values = {
            "second": self.namer([cut_window(spot.image, spot.second)])[0],
            "detected": detected_near(spot.detected, spot.box),
            "noun": TREE.ids[noun],
            "group": group,
        }
        for name, value in values.items():
            self.columns[name].append(value)

    def save(self, out: Path) -> None:
        np.savez_compressed(out, **{name: np.array(values) for name, values in self.columns.items()})
        print(f"{out}: {len(self.columns['noun'])} places")


def of_pairs(options: argparse.Namespace, model: PhotoModel, recognisers: Recording) -> Places:
    answerer, places = PhotoAnswerer(recognisers, model), Places(model.name_windows)
    for line in (options.data / "metadata.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["facts"]["target"] is None:
            continue
        pair = ImagePair.of(*(options.data / row[name] for name in ("before_file_name", "after_file_name")))
        recognisers.spots = []
        answerer.answer([pair], CaptionOptions())
        nouns = row["facts"]["things"][row["facts"]["target"]]["nouns"]
        size = np.array(pair.before.size)
        for spot in recognisers.spots:
            side = int(spot.image is not pair.before.pil)
            x, y = (spot.box[:2] + spot.box[2:]) / 2 * size
            boxes = row["after_boxes" if side else "before_boxes"]
            if nouns[side] in TREE.ids and any(
                left <= x <= left + w and top <= y <= top + h for left, top, w, h in boxes
            ):
                places.add(spot, nouns[side], f"{row['id']}-{side if row['change_type'] == 'replace' else ''}")
    return places


def of_photos(options: argparse.Namespace, model: PhotoModel, recognisers: Recording) -> Places:
    source = Path(__file__).with_name("everyday_sources.yaml").read_text(encoding="utf-8")
    names, places = yaml.safe_load(source)["cutouts"], Places(model.name_windows)
    for line in (options.data / "backgrounds.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["split"] == "train" or not permissive(row):
            continue
        image = Image.open(options.data / "backgrounds" / f"{row['id']}.webp").convert("RGB")
        (detected,) = recognisers.detect([image])
        across, down = image.size
        for number, each in enumerate(row["instances"][:8]):
            noun, (x, y, width, height) = names.get(each["noun"], each["noun"]), each["box"]
            if (
                noun in TREE.ids
                and not each.get("crowd")
                and min(width, height) >= 24
                and width * height < 0.7 * across * down
            ):
                box = np.array([x / across, y / down, (x + width) / across, (y + height) / down])
                side = 1.15 * max(width, height)
                round_it = ((x + width / 2) / across, (y + height / 2) / down, side / across, side / down)
                places.add(Spot(image, detected, box, round_it), noun, f"{row['id']}-{number}")
    return places


class Seen:
    """Files of places, as groups."""

    def __init__(self, *paths: Path) -> None:
        files = [np.load(path) for path in paths]
        data = {name: np.concatenate([each[name] for each in files]) for name in ("second", "detected", "noun")}
        self.second, self.detected = data["second"], data["detected"]
        groups = [f"{number}-{group}" for number, each in enumerate(files) for group in each["group"]]
        _, first, self.group = np.unique(groups, return_index=True, return_inverse=True)
        self.nouns = data["noun"][first]

    def chances(self, evidence: Evidence) -> Chances:
        """(groups, nouns): all looks at one thing together, as `Account` puts them together."""
        logs = np.log(evidence.chances(self.second, self.detected)[:, :-1] + 1e-9)
        total = np.zeros((len(self.nouns), logs.shape[1]))
        np.add.at(total, self.group, logs)
        joined = np.exp(total / np.bincount(self.group)[:, None])
        return np.asarray(joined / joined.sum(axis=1, keepdims=True))

    def loss(self, evidence: Evidence) -> float:
        """Of the noun and all that it is a kind of."""
        of_kind = self.chances(evidence) @ TREE.membership_cached().T
        return float(
            -np.mean(
                [np.log(row[TREE.lineage(noun)] + 1e-6).mean() for row, noun in zip(of_kind, self.nouns, strict=True)]
            )
        )

    def naming(self, evidence: Evidence) -> Naming:
        return naming_at(self.chances(evidence), self.nouns, TREE, evidence.level, closer=evidence.closer)


def fit(options: argparse.Namespace) -> None:
    pairs, photos = Seen(*options.pairs), Seen(options.photos)
    chance = np.random.default_rng(2)

    def loss(evidence: Evidence) -> float:
        return (1 - PHOTOS) * pairs.loss(evidence) + PHOTOS * photos.loss(evidence)

    best = Evidence(detector=3.6, second=0.7, second_floor=1e-4, temperature=1.0, closer=CLOSER)
    least, tries = loss(best), 160
    for turn in range(tries):
        spread = 0.7 if turn < tries // 2 else 0.25
        factors = {name: float(np.exp(chance.normal(0, spread))) for name in _FITTED}
        tried = replace(best, **{name: getattr(best, name) * factor for name, factor in factors.items()})
        if (value := loss(tried)) < least:
            best, least = tried, value
    levels = [replace(best, level=float(level)) for level in np.round(np.arange(0.5, CLOSER, 0.02), 2)]
    enough = [each for each in levels if min(seen.naming(each).right for seen in (pairs, photos)) >= RIGHT]
    best = enough[0] if enough else levels[-1]
    values = {name: float(f"{value:.3g}") for name, value in asdict(best).items() if name != "tree"}
    options.out.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    print(f"loss {least:.3f}: {values}")


def judge(options: argparse.Namespace) -> None:
    evidence = Evidence(**json.loads(options.naming.read_text(encoding="utf-8")))
    for path in options.files:
        seen = Seen(path)
        best = np.mean(seen.chances(evidence).argmax(axis=1) == seen.nouns)
        print(f"{path.stem}: {len(seen.nouns)} things, best guess right {best:.3f}; {seen.naming(evidence)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("pairs", "photos"):
        one = verbs.add_parser(verb)
        one.add_argument("out", type=Path)
        one.add_argument("data", type=Path)
    one = verbs.add_parser("fit")
    one.add_argument("out", type=Path)
    one.add_argument("photos", type=Path)
    one.add_argument("pairs", type=Path, nargs="+")
    one = verbs.add_parser("judge")
    one.add_argument("naming", type=Path)
    one.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args()
    if options.verb in ("pairs", "photos"):
        model = PhotoModel(everyday_folder(), runtime="onnx", device="cpu", threads=1)
        recognisers = Recording(model.name_windows, folder=recognisers_folder(), threads=1)
        {"pairs": of_pairs, "photos": of_photos}[options.verb](options, model, recognisers).save(options.out)
    else:
        {"fit": fit, "judge": judge}[options.verb](options)


if __name__ == "__main__":
    main()
