"""Builds the library of everyday things from its four sources; permissively licensed rows only.

python benchmarks/everyday_library.py OUT --sprites DIR --photos DIR --furniture DIR --emoji DIR

sprites: scanned household objects with `objects.jsonl`; photos: cut-outs and background photos with `cutouts.jsonl` and
`backgrounds.jsonl`; furniture: the unpacked *.sh3f catalogues of Debian's sweethome3d-furniture, a folder each; emoji:
`assets` of npm's @lobehub/fluent-emoji-3d. `everyday_sources.yaml` says what each source's names mean.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from everyday_rooms import draw_room, patch_shape
from spotchange.everyday.language.colours import main_colour
from spotchange.everyday.language.nouns import everyday_nouns

Row = dict[str, Any]
_ROOMS = {"train": 320, "held-out": 80}
_PATCHES = {"train": 420, "held-out": 80}


class ImageBatch:
    """Encoded images one after the other in a file."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")

    def put(self, image: Image.Image, *, side: int, quality: int) -> tuple[list[int], float]:
        """Where it lies, and its width / height."""
        image = image.copy()
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        image.save(buffer, "WEBP", quality=quality, alpha_quality=60, method=4)
        at = [self.file.tell(), len(buffer.getvalue())]
        self.file.write(buffer.getvalue())
        return at, round(image.width / image.height, 4)


def permissive(row: Row) -> bool:
    """CC BY, CC0 and the like; share-alike is left out."""
    return bool(row["permissive"]) and "SA" not in row["licence"]


def cropped(image: Image.Image) -> Image.Image | None:
    """To what is seen; None for next to nothing."""
    image = image.convert("RGBA")
    down, across = np.nonzero(np.asarray(image)[..., 3] > 8)
    if len(down) < 64 or min(np.ptp(down), np.ptp(across)) < 12:
        return None
    return image.crop((int(across.min()), int(down.min()), int(across.max()) + 1, int(down.max()) + 1))


def fifth(name: str) -> bool:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 5 == 0


def sprites(folder: Path, names: dict[str, str], tiles: ImageBatch) -> Iterator[Row]:
    for row in map(json.loads, (folder / "objects.jsonl").read_text(encoding="utf-8").splitlines()):
        held, views = row["split"] != "train", []
        for number, view in enumerate(row["views"]):
            image = None if held and number % 2 else cropped(Image.open(folder / view["file"]))
            if image is not None:
                at, aspect = tiles.put(image, side=112, quality=70)
                views.append({"at": at, "aspect": aspect})
        if views:
            yield {
                "id": f"gso:{row['name']}",
                "noun": names.get(row["noun"], row["noun"]),
                "colour": row["color"],
                "height": row["height_m"],
                "split": "held-out" if held else "train",
                "source": "google-scanned-objects",
                "licence": "CC BY 4.0",
                "views": views,
            }


def single(image: Image.Image, tiles: ImageBatch, *, side: int = 128, quality: int = 72, **values: Any) -> Row | None:
    """A thing with one view."""
    shown = cropped(image)
    if shown is None:
        return None
    at, aspect = tiles.put(shown, side=side, quality=quality)
    return {**values, "colour": main_colour(np.asarray(shown)), "views": [{"at": at, "aspect": aspect}]}


def cutouts(folder: Path, names: dict[str, str], tiles: ImageBatch) -> Iterator[Row | None]:
    for row in map(json.loads, (folder / "cutouts.jsonl").read_text(encoding="utf-8").splitlines()):
        if permissive(row):
            yield single(
                Image.open(folder / "cutouts" / f"{row['id']}.webp"),
                tiles,
                side=192,
                quality=78,
                id=f"photo:{row['id']}",
                noun=names.get(row["noun"], row["noun"]),
                height=None,
                split="train" if row["split"] == "train" else "held-out",
                source=row["source"],
                licence=row["licence"],
                url=row["source_url"],
            )


def furniture(folder: Path, nouns: dict[str, list[str]], tiles: ImageBatch) -> Iterator[Row | None]:
    by_name = {name: noun for noun, names in nouns.items() for name in names}
    for catalogue in sorted(folder.iterdir()):
        models: dict[int, dict[str, str]] = {}
        text = (catalogue / "PluginFurnitureCatalog.properties").read_text(encoding="latin1")
        for key, number, value in re.findall(r"^(\w+)#(\d+)=(.*)$", text, re.MULTILINE):
            models.setdefault(int(number), {})[key] = value.strip()
        for model in models.values():
            icon = catalogue / model.get("icon", "").lstrip("/")
            noun = by_name.get(model.get("name", "").lower())
            if noun is None or not icon.is_file() or Image.open(icon).mode == "RGB":
                continue
            name = f"sh3d:{catalogue.name}/{icon.stem}"
            yield single(
                Image.open(icon),
                tiles,
                id=name,
                noun=noun,
                height=float(model.get("height", 100)) / 100,
                split="held-out" if fifth(name) else "train",
                source=f"sweethome3d-{catalogue.name}",
                licence="CC0" if catalogue.name == "BlendSwap-CC-0" else "CC BY 3.0",
                creator=model.get("creator", ""),
            )


def emoji(folder: Path, nouns: dict[str, list[str]], tiles: ImageBatch) -> Iterator[Row | None]:
    for noun, points in nouns.items():
        for point in points:
            found = [path for path in (folder / f"{point}.webp", folder / f"{point}-fe0f.webp") if path.exists()]
            if found:
                values = {"noun": noun, "height": None, "split": "train", "source": "fluent-emoji-3d", "licence": "MIT"}
                yield single(Image.open(found[0]), tiles, id=f"emoji:{point}", **values)


def patches(folder: Path, tiles: ImageBatch) -> Iterator[Row | None]:
    """Pieces of photos in odd shapes: things without a name."""
    rows = [row for row in map(json.loads, (folder / "backgrounds.jsonl").open(encoding="utf-8")) if permissive(row)]
    chance = np.random.default_rng(5)
    for split, wanted in _PATCHES.items():
        photos = [row for row in rows if (row["split"] == "train") == (split == "train")]
        for number in range(wanted):
            row = photos[number % len(photos)]
            image = Image.open(folder / "backgrounds" / f"{row['id']}.webp").convert("RGB")
            provenance = {"source": row["source"], "licence": row["licence"], "url": row["source_url"]}
            values = {"noun": None, "height": 0.25, "split": split, "weight": 6.0, **provenance}
            shape = patch_shape(image, chance)
            yield single(shape, tiles, side=112, quality=62, id=f"patch:{row['id']}-{number}", **values)


def backgrounds(folder: Path, out: Path) -> None:
    """Photos, and rooms and table tops drawn from their calm parts."""
    images = ImageBatch(out / "backgrounds.bin")
    rows: list[Row] = []
    calm: dict[str, list[Image.Image]] = {"train": [], "held-out": []}
    for row in map(json.loads, (folder / "backgrounds.jsonl").open(encoding="utf-8")):
        if not permissive(row):
            continue
        image = Image.open(folder / "backgrounds" / f"{row['id']}.webp").convert("RGB")
        split = "train" if row["split"] == "train" else "held-out"
        x, y, width, height = map(int, row["calm_box"])
        if width * height > 0.06 * image.width * image.height:
            calm[split].append(image.crop((x, y, x + width, y + height)))
        at, _ = images.put(image, side=352, quality=68)
        kept = {"source": row["source"], "licence": row["licence"], "url": row["source_url"], "at": at}
        rows.append({"id": row["id"], "kind": "photo", "split": split, **kept})
    for number, (split, wanted) in enumerate(_ROOMS.items(), 1):
        chance = np.random.default_rng(number)
        for room in range(wanted):
            at, _ = images.put(draw_room(chance, calm[split]), side=288, quality=62)
            kept = {"source": "spotchange", "licence": "Apache-2.0", "at": at}
            rows.append({"id": f"room-{split}-{room}", "kind": "room", "split": split, **kept})
    (out / "backgrounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def settled(rows: list[Row], sources: dict[str, Any]) -> list[Row]:
    """Known nouns only; held-out nouns kept apart; heights where a source gives none."""
    tree, held = everyday_nouns(), set(sources["held_out"])
    rows = [row for row in rows if row["noun"] is None or row["noun"] in tree.ids]
    known: dict[str, list[float]] = {}
    for row in rows:
        if row["height"]:
            known.setdefault(row["noun"], []).append(row["height"])
    for row in rows:
        row["held_out_noun"] = row["noun"] in held
        row["split"] = "held-out" if row["held_out_noun"] else row["split"]
        if row["height"] is None:
            family = tree.names[tree.lineage(tree.ids[row["noun"]])[-1]]
            usual = sources["heights"].get(family, 0.25)
            row["height"] = round(float(np.median(known[row["noun"]])) if row["noun"] in known else usual, 3)
    trained = {row["noun"] for row in rows if row["split"] == "train"}
    for row in rows:  # a noun with held-out things only would be one that nobody meant to hold out
        if row["noun"] not in trained and not row["held_out_noun"] and row["source"] not in ("coco2017", "taco"):
            row["split"] = "train"
            trained.add(row["noun"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    for name in ("sprites", "photos", "furniture", "emoji"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sources = yaml.safe_load(Path(__file__).with_name("everyday_sources.yaml").read_text(encoding="utf-8"))
    tiles = ImageBatch(options.out / "tiles.bin")
    rows: list[Row | None] = [
        *sprites(options.sprites, sources["sprites"], tiles),
        *cutouts(options.photos, sources["cutouts"], tiles),
        *furniture(options.furniture, sources["furniture"], tiles),
        *emoji(options.emoji, sources["emoji"], tiles),
        *patches(options.photos, tiles),
    ]
    kept = settled([row for row in rows if row is not None], sources)
    (options.out / "objects.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    backgrounds(options.photos, options.out)
    print(f"{options.out}: {len(kept)} things, {len({row['noun'] for row in kept})} nouns")


if __name__ == "__main__":
    main()
