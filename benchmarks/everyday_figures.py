"""Everyday model on generated pairs of held-out things: change, kind, place, names; raw scores for calibration.

python benchmarks/everyday_figures.py MODEL LIBRARY [--pairs 4096] [--device cuda] [--save FILE.npz]

The pairs are answered as users' are: the window for the second look comes from the model's own heat.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spotchange.errors import DataError
from spotchange.everyday.kinds import KINDS
from spotchange.everyday.language.naming import SHOWN, WINDOW, hot_window
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.everyday.library import read_library
from spotchange.everyday.stream import EverydayStream
from spotchange.everyday.truth import cut_windows
from spotchange.models.weights.folder import load_model


@torch.no_grad()
def raw_scores(model: Any, loaded: Any, stream: EverydayStream, pairs: int) -> dict[str, np.ndarray]:
    """What the model computes for so many pairs, with the truth beside it."""
    found: dict[str, list[Any]] = {}
    for _ in range(-(-pairs // stream.pairs)):
        batch = stream.next_batch()
        before, after = loaded.preprocessor(batch.before), loaded.preprocessor(batch.after)
        state = model.encode(before, after)
        kinds = model.change_logits(state).float()
        heat = model.heatmap(state).float()
        maps = heat.cpu().numpy()
        windows = np.array([[hot_window(maps[pair, image]) for image in range(2)] for pair in range(len(maps))])
        images = torch.stack([before, after], dim=1).flatten(0, 1)
        boxes = torch.as_tensor(windows, dtype=torch.float32, device=images.device).flatten(0, 1)
        nouns, colours = model.name_windows(cut_windows(images, boxes, size=WINDOW))
        hottest = heat.flatten(1).argmax(dim=1)
        on_it = batch.change_mask.flatten(1).gather(1, hottest[:, None])[:, 0]
        values = {
            "kinds": kinds,
            "kind": batch.change_type,
            "on_it": on_it,
            "placed": batch.change_mask.any(dim=(1, 2)),
            "peak": heat.flatten(2).amax(dim=2),
            "nouns": nouns.unflatten(0, (-1, 2)).half(),
            "colours": colours.unflatten(0, (-1, 2)).half(),
            "noun": batch.nouns,
            "window_nouns": batch.window_nouns,
        }
        for name, value in values.items():
            found.setdefault(name, []).append(value.cpu().numpy())
    return {name: np.concatenate(parts) for name, parts in found.items()}


def noun_chances(raw: dict[str, np.ndarray], temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (named things, nouns) of the thing that changed, and its true noun; pairs without one left out."""
    chances, truth = [], []
    scores = raw["nouns"].astype(np.float32) / temperature
    scores -= scores.max(axis=-1, keepdims=True)
    by_image = np.exp(scores)
    by_image /= by_image.sum(axis=-1, keepdims=True)
    for pair, kind in enumerate(raw["kind"]):
        if kind < 1 or not raw["placed"][pair] or raw["noun"][pair].max() >= len(everyday_nouns().names):
            continue
        name = KINDS[kind]
        if name == "replace":
            for image in range(2):
                if raw["noun"][pair, image] >= 0:
                    chances.append(by_image[pair, image])
                    truth.append(raw["noun"][pair, image])
            continue
        shown = SHOWN.get(name, (True, True))
        seen = [by_image[pair, image] for image in range(2) if shown[image]]
        chances.append(np.mean(seen, axis=0))
        truth.append(raw["noun"][pair].max())
    return np.array(chances), np.array(truth)


def table(raw: dict[str, np.ndarray], title: str) -> list[str]:
    """Lines of figures."""
    known = raw["kind"] >= 0
    predicted, truth = raw["kinds"].argmax(axis=1)[known], raw["kind"][known]
    placed = raw["placed"][known]
    lines = [f"## {title}: {known.sum()} pairs"]
    lines.append(f"change / none {np.mean((predicted != 0) == (truth != 0)):.4f}")
    hits, alarms = np.mean(predicted[truth != 0] != 0), np.mean(predicted[truth == 0] != 0)
    lines.append(f"called changed {hits:.4f}, false alarms {alarms:.4f}")
    lines.append(f"kind {np.mean(predicted == truth):.4f}, place {np.mean(raw['on_it'][known][placed]):.4f}")
    by_kind = [
        f"{name} {np.mean(predicted[truth == k] == k):.3f}" for k, name in enumerate(KINDS) if (truth == k).any()
    ]
    lines.append("kind by kind: " + ", ".join(by_kind))
    tree = everyday_nouns()
    chances, nouns = noun_chances(raw)
    best = chances.argmax(axis=1)
    lines.append(f"noun, best guess {np.mean(best == nouns):.4f} of {len(nouns)}")
    for level in (0.5, 0.6, 0.7, 0.8, 0.9):
        said = [tree.hedge(each, level) for each in chances]
        named = [(word, int(noun)) for word, noun in zip(said, nouns, strict=True) if word != "object"]
        right = np.mean([tree.is_a(tree.names[noun], word) for word, noun in named]) if named else float("nan")
        exact = np.mean([tree.names[noun] == word for word, noun in named]) if named else float("nan")
        lines.append(
            f"level {level}: says a noun in {len(named) / len(said):.3f}, right {right:.3f}, exact {exact:.3f}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("library", type=Path)
    parser.add_argument("--pairs", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--most-objects", type=int)
    options = parser.parse_args()
    loaded = load_model(options.model, device=options.device)
    kept: dict[str, np.ndarray] = {}
    for title, held_out_nouns in (("known nouns, held-out things and photos", False), ("held-out nouns", True)):
        try:
            library = read_library(
                options.library,
                split="held-out",
                device=options.device,
                held_out_nouns=held_out_nouns,
                most_objects=options.most_objects,
            )
        except DataError:
            if not held_out_nouns:
                raise
            continue  # things of one's own: no noun is kept from training
        stream = EverydayStream(
            library,
            pairs=options.batch,
            side=loaded.settings.vision.image_size[0],
            grid=loaded.settings.vision.grid,
            seed=11,
            split="test",
        )
        raw = raw_scores(loaded.model, loaded, stream, options.pairs)
        print("\n".join(table(raw, title)), flush=True)
        kept |= {f"{'held' if held_out_nouns else 'known'}_{name}": value for name, value in raw.items()}
    if options.save is not None:
        np.savez_compressed(options.save, **kept)


if __name__ == "__main__":
    main()
