"""Whoever answers everyday images, on photos that no training saw: taken again in many ways, or with a thing pasted in.

python benchmarks/everyday_pasted.py CUTOUTS [--photos 24] [--seed 1] [--model bundled] [--out FILE.jsonl]

CUTOUTS holds `backgrounds.jsonl`, `cutouts.jsonl` and both folders of images; only rows that are not permissively
licensed are used, as none of these may be trained on. Every photo is taken again in every way of AGAIN (nothing
changed); every second time another one, too, in which a cut-out came, went, moved, was replaced or recoloured, on 1 to
12 % of the picture.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from everyday_generated import TREE, on_target, said_nouns
from everyday_real import brighter, cropped, reencoded, shifted
from spotchange.answering import Answer, CaptionOptions, ImagePair, build_answerer

SHARES = (0.01, 0.02, 0.05, 0.12)
KINDS = ("add", "drop", "move", "replace", "color")
Box = tuple[int, int, int, int]
Picture = Image.Image


def grainy(image: Picture, chance: random.Random, deviation: float = 8.0) -> Picture:
    grain = np.random.default_rng(chance.randrange(1 << 30)).normal(0, deviation, (image.height, image.width, 3))
    return Image.fromarray((np.asarray(image, np.float32) + grain).clip(0, 255).astype(np.uint8))


def coarse(image: Picture, chance: random.Random) -> Picture:
    small = image.resize((round(image.width * 0.6), round(image.height * 0.6)), Image.Resampling.LANCZOS)
    return reencoded(small, chance).resize(image.size, Image.Resampling.BICUBIC)


def tinted(image: Picture, chance: random.Random) -> Picture:
    gains = np.array([chance.uniform(0.92, 1.08) for _ in range(3)])
    return Image.fromarray((np.asarray(image, np.float32) * gains).clip(0, 255).astype(np.uint8))


def soft(image: Picture, chance: random.Random) -> Picture:
    return image.filter(ImageFilter.GaussianBlur(chance.uniform(0.4, 0.8)))


def turned(image: Picture, chance: random.Random) -> Picture:
    width, height = image.size
    inner = (0.04 * width, 0.04 * height, 0.96 * width, 0.96 * height)
    leaning = image.rotate(chance.choice((-1, 1)) * chance.uniform(1, 2), Image.Resampling.BICUBIC)
    return leaning.resize(image.size, Image.Resampling.BICUBIC, box=inner)


def dark(image: Picture, chance: random.Random) -> Picture:
    """A sixth of the light, and the grain of a small sensor."""
    return grainy(image.point([round(level / 6) for level in range(256)] * 3), chance, 2.5)


def at_night(image: Picture, chance: random.Random) -> Picture:
    return shifted(dark(image, chance), chance)


AGAIN: dict[str, Callable[[Picture, random.Random], Picture]] = {
    "re-encoded": reencoded,
    "brighter": brighter,
    "cropped": cropped,
    "hand-held": shifted,
    "turned 1 to 2 degrees": turned,
    "small and back": coarse,
    "tinted": tinted,
    "grainy": grainy,
    "soft": soft,
    "night": at_night,
}


class Photos:
    """Photos and cut-outs that were in no training."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.photos = self._rows("backgrounds.jsonl")
        self.cutouts = [row for row in self._rows("cutouts.jsonl") if row["border_sides"] == 0]

    def _rows(self, name: str) -> list[dict[str, Any]]:
        rows = (json.loads(line) for line in (self.folder / name).read_text(encoding="utf-8").splitlines())
        return [row for row in rows if not row["permissive"]]

    def photo(self) -> Picture:
        row = self.chance.choice(self.photos)
        return Image.open(self.folder / "backgrounds" / f"{row['id']}.webp").convert("RGB")

    def thing(self, photo: Picture, share: float) -> tuple[Picture, str]:
        """A cut-out that covers a share of a photo, and its noun."""
        row = self.chance.choice(self.cutouts)
        image = Image.open(self.folder / "cutouts" / f"{row['id']}.webp").convert("RGBA")
        seen = max(1, np.count_nonzero(np.asarray(image.getchannel("A")) > 127))
        scale = (share * photo.width * photo.height / seen) ** 0.5
        size = (max(4, round(image.width * scale)), max(4, round(image.height * scale)))
        return image.resize(size, Image.Resampling.LANCZOS), row["noun"]

    def changed(self, kind: str, share: float) -> tuple[Picture, Picture, list[Box], list[str]]:
        """Before and after, where the thing is, and what it may be called."""
        photo = self.photo()
        thing, noun = self.thing(photo, share)
        at = self._place(photo, thing)
        there, box = pasted(photo, thing, at)
        if kind == "add":
            return photo, there, [box], [noun]
        if kind == "drop":
            return there, photo, [box], [noun]
        if kind == "color":
            recoloured, _ = pasted(photo, hued(thing, self.chance.randint(70, 180)), at)
            return there, recoloured, [box], [noun]
        if kind == "move":
            places = [self._place(photo, thing) for _ in range(20)]
            far = max(places, key=lambda each: abs(each[0] - at[0]) + abs(each[1] - at[1]))
            moved, other_box = pasted(photo, thing, far)
            return there, moved, [box, other_box], [noun]
        other, other_noun = self.thing(photo, share)
        replaced, other_box = pasted(photo, other, at)
        return there, replaced, [box, other_box], [noun, other_noun]

    def _place(self, photo: Picture, thing: Picture) -> tuple[int, int]:
        across, down = max(0, photo.width - thing.width), max(0, photo.height - thing.height)
        return self.chance.randint(0, across), self.chance.randint(0, down)


def pasted(photo: Picture, thing: Picture, at: tuple[int, int]) -> tuple[Picture, Box]:
    image = photo.copy()
    image.paste(thing, at, thing)
    return image, (*at, thing.width, thing.height)


def hued(thing: Picture, by: int) -> Picture:
    """In another, strong colour."""
    hue, strength, value = thing.convert("RGB").convert("HSV").split()
    strong = strength.point([max(140, level) for level in range(256)])
    shifted_hue = hue.point([(level + by) % 256 for level in range(256)])
    image = Image.merge("HSV", (shifted_hue, strong, value.point([max(90, v) for v in range(256)]))).convert("RGB")
    image.putalpha(thing.getchannel("A"))
    return image


def pairs(photos: Photos, count: int, chance: random.Random) -> Iterator[tuple[dict[str, Any], Picture, Picture]]:
    """What is true of a pair, and the pair."""
    made = 0
    for way, again in AGAIN.items():
        for number in range(count):
            photo = photos.photo()
            before = dark(photo, chance) if way == "night" else photo
            yield {"way": way, "truth": "none", "boxes": [], "nouns": []}, before, again(photo, chance)
            if number % 2:
                kind, share = KINDS[made % len(KINDS)], SHARES[made % len(SHARES)]
                made += 1
                before, after, boxes, nouns = photos.changed(kind, share)
                before = dark(before, chance) if way == "night" else before
                row = {"way": way, "truth": kind, "share": share, "boxes": boxes, "nouns": nouns}
                yield row, before, again(after, chance)


def line_of(row: dict[str, Any], answer: Answer) -> dict[str, Any]:
    result = answer.result
    said = said_nouns(result.caption) if row["nouns"] else []
    true = [any(noun in TREE.ids and TREE.is_a(noun, word) for noun in row["nouns"]) for word in said]
    return row | {
        "changed": result.changed, "kind": result.change_type, "score": result.change_score, "model": result.model,
        "caption": result.caption, "said": said, "right": all(true) if said else None,
        "placed": on_target(answer, row["boxes"]) if row["boxes"] else None,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cutouts", type=Path)
    parser.add_argument("--photos", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chance, answerer = random.Random(options.seed), build_answerer(options.model)
    lines = []
    for row, before, after in pairs(Photos(options.cutouts, chance), options.photos, chance):
        (answer,) = answerer.answer([ImagePair.of(before, after)], CaptionOptions())
        assert isinstance(answer, Answer), answer
        lines.append(line_of(row, answer))
    same, changed = ([line for line in lines if (line["truth"] == "none") == none] for none in (True, False))
    for way in AGAIN:
        part = [line for line in same if line["way"] == way]
        print(f"{way}: called changed {sum(line['changed'] for line in part)} of {len(part)}")
    print(f"all: called changed {sum(line['changed'] for line in same)} of {len(same)}")
    named = [line for line in changed if line["said"]]
    counts = {
        "called changed": sum(line["changed"] for line in changed),
        "place": sum(line["placed"] for line in changed),
        "kind": sum(line["kind"] == line["truth"] for line in changed),
        "says a noun": len(named),
    }
    print(f"changed, of {len(changed)}: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    print(f"nouns right: {sum(line['right'] for line in named)} of {len(named)}")
    if options.out is not None:
        options.out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
