"""How often the scene model takes an image for one of its scenes that is none, and how often it knows its scenes.

    python benchmarks/gate.py [--images 2000] [--screenshots FOLDER] [--photos FOLDER] [--scenes FOLDER ...]

The images that are no scenes are made here: pages, icons, textures, drawings, noise, flat and blurred things that
resemble a table top, photographs found in installed Python packages and, where folders are given, screenshots
(`page_edits.py` makes some) and more photographs. Each becomes a pair by an edit. A pair is falsely familiar if the
gate sends it to the scene model and the model does not call it unfamiliar: then it gets a sentence about cubes.
`--scenes` are folders of scenes (`NAME_before.jpg` with `NAME_after.jpg`, or rows as `spotchange generate` writes).
"""

from __future__ import annotations

import argparse
import io
import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from spotchange.answering.gate import passed_by_a_hair, plausible_scene
from spotchange.answering.pair import ImagePair

Pair = tuple[Image.Image, Image.Image]
SIZE = (480, 320)
AS_JPEG = 0.3  # of the images that are made
GREYS = [(level, level, level) for level in (95, 120, 135, 150, 170, 200)]


def colour(random: np.random.Generator) -> tuple[int, int, int]:
    red, green, blue = (int(level) for level in random.integers(0, 256, 3))
    return red, green, blue


def corners(random: np.random.Generator, size: tuple[int, int]) -> tuple[int, int, int, int]:
    width, height = (int(random.integers(8, max(9, side // 2))) for side in size)
    left, top = int(random.integers(0, size[0] - width)), int(random.integers(0, size[1] - height))
    return left, top, left + width, top + height


def flat(random: np.random.Generator) -> Image.Image:
    """A ground of one colour or a slow ramp, down the image or in any direction, often as grey as a scene's."""
    grey = random.random() < 0.6
    first, second = (np.array(GREYS[random.integers(len(GREYS))] if grey else colour(random), float) for _ in range(2))
    angle = np.pi / 2 if random.random() < 0.5 else random.uniform(0, 2 * np.pi)
    rows, columns = np.mgrid[: SIZE[1], : SIZE[0]]
    along = columns / SIZE[0] * np.cos(angle) + rows / SIZE[1] * np.sin(angle)
    ramp = ((along - along.min()) / np.ptp(along))[..., None] ** random.uniform(0.5, 2)
    if random.random() < 0.3:
        ramp = np.zeros_like(ramp)
    pixels = first + (second - first) * ramp
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def shapes(image: Image.Image, random: np.random.Generator, count: int, *, opaque: bool = True) -> Image.Image:
    for _ in range(count):
        layer = Image.new("RGBA", image.size)
        draw = ImageDraw.Draw(layer)
        alpha = 255 if opaque else int(random.integers(60, 200))
        kind = int(random.integers(4))
        box, fill = corners(random, image.size), (*colour(random), alpha)
        if kind == 0:
            draw.ellipse(box, fill=fill)
        elif kind == 1:
            draw.rectangle(box, fill=fill)
        elif kind == 2:
            points = [(int(x), int(y)) for x, y in random.integers(0, SIZE[1], (5, 2))]
            draw.polygon(points, fill=fill)
        else:
            draw.line(box, fill=fill, width=int(random.integers(1, 9)))
        image = Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")
    return image


def page(random: np.random.Generator) -> Image.Image:
    """Lines of letters and panels."""
    image = Image.new("RGB", SIZE, "white" if random.random() < 0.7 else colour(random))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, SIZE[0], int(random.integers(10, 60))), fill=colour(random))
    for top in range(70, SIZE[1], int(random.integers(12, 30))):
        length = int(random.integers(5, 70))
        draw.text((int(random.integers(5, 60)), top), "".join(map(chr, random.integers(97, 123, length))), fill="black")
    return image


def icon(random: np.random.Generator) -> Image.Image:
    """A few shapes on a plain ground, sometimes half transparent."""
    ground = Image.new("RGB", SIZE, GREYS[random.integers(len(GREYS))] if random.random() < 0.5 else colour(random))
    return shapes(ground, random, int(random.integers(1, 5)), opaque=random.random() < 0.5)


def texture(random: np.random.Generator) -> Image.Image:
    """Stripes, checks, clouds and waves."""
    rows, columns = np.mgrid[: SIZE[1], : SIZE[0]]
    kind, period = int(random.integers(4)), random.uniform(4, 60)
    if kind == 0:
        value = 0.5 + 0.5 * np.sin((rows * random.normal() + columns * random.normal()) / period * 6)
    elif kind == 1:
        value = ((rows // period + columns // period) % 2).astype(float)
    else:
        cells = random.random((int(random.integers(3, 30)), int(random.integers(3, 40)))).astype(np.float32)
        value = np.asarray(Image.fromarray(cells).resize(SIZE, Image.Resampling.BICUBIC)).clip(0, 1)
        if kind == 3:
            value = 0.5 + 0.5 * np.sin(value * random.uniform(5, 40))
    one, two = np.array(colour(random), float), np.array(colour(random), float)
    return Image.fromarray((one + (two - one) * value[..., None]).clip(0, 255).astype(np.uint8))


def noise(random: np.random.Generator) -> Image.Image:
    """Grey or coloured, fine or coarse, weak or strong."""
    channels = 3 if random.random() < 0.5 else 1
    side = int(random.integers(1, 24))
    small = random.normal(random.uniform(60, 200), random.uniform(4, 90), (SIZE[1] // side + 1, SIZE[0] // side + 1, 3))
    small[..., 1:] = small[..., 1:] if channels == 3 else small[..., :1]
    return Image.fromarray(small.clip(0, 255).astype(np.uint8)).resize(SIZE, Image.Resampling.BILINEAR)


def table_top(random: np.random.Generator) -> Image.Image:
    """What looks most like a scene and is none: grey ground, a vignette, a few blurred or half transparent things."""
    image = shapes(flat(random), random, int(random.integers(1, 6)), opaque=random.random() < 0.5)
    if random.random() < 0.7:
        image = image.filter(ImageFilter.GaussianBlur(random.uniform(0.5, 8)))
    return image


def clock(random: np.random.Generator) -> Image.Image:
    """A face with hands and, often, a square of one colour, out of focus."""
    image = flat(random)
    draw = ImageDraw.Draw(image)
    x, y, radius = int(random.integers(150, 330)), int(random.integers(120, 200)), int(random.integers(60, 120))
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill="white", outline="black", width=4)
    for length in (0.5, 0.8):
        angle = random.uniform(0, 2 * np.pi)
        draw.line((x, y, x + length * radius * np.cos(angle), y + length * radius * np.sin(angle)), "black", 5)
    if random.random() < 0.8:
        left, top = int(random.integers(0, 400)), int(random.integers(0, 250))
        draw.rectangle(
            (left, top, left + 60, top + 60), fill=(220, 30, 30) if random.random() < 0.5 else colour(random)
        )
    return image.filter(ImageFilter.GaussianBlur(random.uniform(0, 6)))


def found(folder: Path, random: np.random.Generator, count: int, pattern: str = "*") -> list[Image.Image]:
    """Cuts of images in a folder, turned and toned, so that few files give many."""
    files = [
        each for each in sorted(folder.rglob(pattern)) if each.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp")
    ]
    files = [files[number] for number in random.permutation(len(files))][:count] if files else []
    images = []
    for number in range(count if files else 0):
        try:
            image = Image.open(files[number % len(files)]).convert("RGB")
        except OSError:
            continue
        if min(image.size) < 48:
            continue
        if number >= len(files):
            scale = random.uniform(0.4, 0.9)
            width, height = int(image.width * scale), int(image.height * scale)
            left, top = int(random.integers(image.width - width)), int(random.integers(image.height - height))
            image = image.crop((left, top, left + width, top + height))
            image = image.point([min(255, int(level * scale * 1.4)) for level in range(256)] * 3)
        images.append(image.resize(SIZE))
    return images


def edited(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """The second of the pair."""
    kind = int(random.integers(4))
    if kind == 0:
        return shapes(image, random, 1)
    if kind == 1:
        return image.filter(ImageFilter.GaussianBlur(2))
    if kind == 2:
        return image.point([min(255, int(level * 0.8)) for level in range(256)] * 3)
    box = corners(random, image.size)
    after = image.copy()
    after.paste(image.crop(box).transpose(Image.Transpose.FLIP_LEFT_RIGHT).rotate(180), box[:2])
    return shapes(after, random, 1, opaque=False)


def compressed(pair: Pair, random: np.random.Generator) -> Pair:
    """As JPEG: no two neighbours are exactly equal any more."""
    found = []
    for image in pair:
        content = io.BytesIO()
        image.save(content, "JPEG", quality=int(random.integers(60, 96)))
        found.append(Image.open(content).convert("RGB"))
    return found[0], found[1]


MADE = {"pages": page, "icons": icon, "textures": texture, "noise": noise, "table tops": table_top, "clocks": clock}


def not_scenes(count: int, seed: int, screenshots: Path | None, photos: Path | None) -> Iterator[tuple[str, Pair]]:
    """Pairs that show no scene, each with the kind it is."""
    random = np.random.default_rng(seed)
    packages = Path(sysconfig.get_paths()["purelib"])
    each = count // (len(MADE) + 2)
    folders = {"photographs": photos or packages, "in Python packages": packages}
    if screenshots is not None:
        folders["screenshots"] = screenshots
        each = count // (len(MADE) + 3)
    for kind, make in MADE.items():
        for _ in range(each):
            image = make(random)
            pair = image, edited(image, random)
            yield kind, compressed(pair, random) if random.random() < AS_JPEG else pair
    for kind, folder in folders.items():
        for image in found(folder, random, each):
            yield kind, (image, edited(image, random))


def scene_pairs(folder: Path) -> Iterator[Pair]:
    """Pairs with and without a change, by file names or by rows."""
    rows = next(iter(sorted(folder.rglob("metadata.jsonl"))), None)
    if rows is None:
        for before in sorted(folder.glob("*_before.*")):
            for other in ("after", "same"):
                if not before.with_name(before.name.replace("before", other)).exists():
                    continue
                yield Image.open(before), Image.open(before.with_name(before.name.replace("before", other)))
        return
    for line in rows.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield Image.open(rows.parent / row["before_file_name"]), Image.open(rows.parent / row["after_file_name"])


class Judge:
    """The gate, and the scene model behind it; the model runs only where the gate asks it."""

    def __init__(self, model: str) -> None:
        from spotchange.answering.build import model_answerer

        self.answerer = model_answerer(model, threads=1)

    def passes(self, pair: Pair) -> tuple[bool, float]:
        """Whether the gate sends the pair to the model, and how familiar it is there (0: not asked or believed)."""
        before, after = (each.convert("RGB") for each in pair)
        looked_at = ImagePair.of(before, after)
        if not plausible_scene(looked_at):
            return False, 0.0
        features = self.answerer.runtime.encode([before], [after]).features
        assert self.answerer.familiarity is not None
        familiarity = float(self.answerer.familiarity.scores(features)[0])
        return True, 0.0 if passed_by_a_hair(looked_at, familiarity) else familiarity

    def knows(self, familiarity: float) -> bool:
        return familiarity >= self.answerer.calibration.least_familiarity


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--screenshots", type=Path)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--scenes", type=Path, nargs="*", default=[])
    parser.add_argument("--most-scenes", type=int, help="pairs of each folder of scenes")
    parser.add_argument("--keep", type=Path, help="write what is falsely familiar here")
    options = parser.parse_args()
    judge = Judge(options.model)
    counts: dict[str, list[tuple[bool, float]]] = {}
    for kind, pair in not_scenes(options.images, options.seed, options.screenshots, options.photos):
        passed, familiarity = judge.passes(pair)
        counts.setdefault(kind, []).append((passed, familiarity))
        if passed and judge.knows(familiarity) and options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            for side, image in zip(("before", "after"), pair, strict=True):
                image.save(options.keep / f"{kind.replace(' ', '_')}_{len(counts[kind]):03d}_{side}.png")
    total = false = 0
    for kind, rows in counts.items():
        wrong = sum(passed and judge.knows(familiarity) for passed, familiarity in rows)
        total, false = total + len(rows), false + wrong
        print(f"{kind:20} {len(rows):5} pairs, {sum(p for p, _ in rows):4} past the gate, {wrong:3} falsely familiar")
    print(f"falsely familiar: {false} of {total} ({100 * false / max(1, total):.2f} %)")
    for folder in options.scenes:
        rows = [judge.passes(pair) for pair in list(scene_pairs(folder))[: options.most_scenes]]
        known = sum(passed and judge.knows(familiarity) for passed, familiarity in rows)
        print(f"{folder.name}: familiar {known} of {len(rows)}, past the gate {sum(passed for passed, _ in rows)}")


if __name__ == "__main__":
    main()
