"""Fits the model of kinds of change on composited pairs of the training split.

python benchmarks/everyday_kinds.py signs OUT.pkl --library LIBRARY --pairs 200 --first 0
python benchmarks/everyday_kinds.py fit FOLDER SIGNS.pkl [SIGNS.pkl ...]

`signs` composes pairs, compares them and writes what the photo answerer sees in each; run it several times with other
first scenes. `fit` judges by cross-validation over backgrounds, then fits on all and writes kinds.npz into FOLDER.
"""

from __future__ import annotations

import argparse
import pickle
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from spotchange.comparison.photos.judging import judge_photos
from spotchange.everyday.facts import facts_of, visible
from spotchange.everyday.imaging.compositing import compose
from spotchange.everyday.kinds import KIND_IDS, KINDS, OBJECT_KINDS, SHARES
from spotchange.everyday.library import read_library
from spotchange.everyday.recognition.account import Account
from spotchange.everyday.recognition.kind_model import FILE
from spotchange.everyday.recognition.recognisers import Recognisers
from spotchange.everyday.recognition.signs import Signs, place_signs, whole_signs
from spotchange.everyday.sampling import draw_scenes

AT_ONCE, FOLDS, NETWORKS = 8, 4, 3
# Rare kinds are drawn more often than the world has them; fitting weighs half of that back.
DRAWN = {
    "none": 12, "add": 10, "drop": 10, "move": 12, "replace": 11, "color": 8, "turn": 9, "split": 7, "resize": 7,
    "brighter": 1.5, "darker": 1.5, "blur": 1.5, "crop": 2.5, "mirror": 1, "gray": 1, "tint": 2.5,
}  # fmt: skip
USUAL = np.array([SHARES[kind] / DRAWN[kind] for kind in KINDS], np.float32)
Case = tuple[Signs, str, str]  # signs, kind, background


def signs_of(before: np.ndarray, after: np.ndarray, eyes: Recognisers) -> Signs:
    """As `answering/photos.py` computes them."""
    verdict = judge_photos(before, after, ())
    whole = whole_signs(before, after, verdict)
    images = (Image.fromarray(before), Image.fromarray(verdict.after))
    account = Account(*images, verdict.mask, verdict.findings, eyes, whole)
    return whole | place_signs(account.traces, account.places())


def signs(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    library, eyes = read_library(options.library, split="train"), Recognisers(threads=1)
    cases: list[Case] = []
    number = options.first
    while len(cases) < options.pairs:
        scenes = draw_scenes(library, torch.arange(number, number + AT_ONCE), seed=options.seed, shares=DRAWN)
        number += AT_ONCE
        images = compose(library, scenes, side=288)
        pixels = images.pixels.permute(0, 1, 3, 4, 2).numpy()
        for place, facts in enumerate(facts_of(library, scenes, images)):
            if visible(facts):
                ground = library.background_rows[int(scenes.background[place])]["id"]
                cases.append((signs_of(*pixels[place].copy(), eyes), facts["kind"], ground))
        print(len(cases), flush=True)
    options.out.write_bytes(pickle.dumps(cases))


def fitted(values: np.ndarray, kinds: np.ndarray, *, epochs: int = 100, batch: int = 128) -> list[nn.Sequential]:
    """Networks on standardised signs, kept small by noise, dropout and weight decay: pairs are few."""
    inputs, truth = torch.tensor(values), torch.tensor(kinds)
    weight = torch.tensor(np.sqrt(USUAL) / np.sqrt(USUAL).mean())
    found = []
    for seed in range(NETWORKS):
        torch.manual_seed(seed)
        layers = [nn.Linear(inputs.shape[1], 64), nn.Linear(64, 64), nn.Linear(64, len(KINDS))]
        hidden = [each for layer in layers[:2] for each in (layer, nn.ReLU(), nn.Dropout(0.25))]
        network = nn.Sequential(nn.Dropout(0.1), *hidden, layers[2])
        optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.3)
        steps = epochs * -(-len(inputs) // batch)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
        for _ in range(epochs):
            for rows in torch.randperm(len(inputs)).split(batch):
                shaken = inputs[rows] + 0.2 * torch.randn_like(inputs[rows])
                scores = network(shaken)
                loss = nn.functional.cross_entropy(scores, truth[rows], weight=weight, label_smoothing=0.05)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
        found.append(network.eval())
    return found


@torch.no_grad()
def probabilities(networks: list[nn.Sequential], values: np.ndarray) -> np.ndarray:
    return torch.stack([each(torch.tensor(values)).softmax(1) for each in networks]).mean(0).numpy()


def report(found: np.ndarray, kinds: np.ndarray, changed: np.ndarray) -> None:
    usual, right = USUAL[kinds], found.argmax(axis=1) == kinds
    print(f"kind, as often as the world draws them: {(right * usual).sum() / usual.sum():.3f} of {len(kinds)}")
    things = slice(1, 1 + len(OBJECT_KINDS))
    among = found[:, things] / found[:, things].sum(axis=1, keepdims=True)
    judged = changed & (kinds >= things.start) & (kinds < things.stop)
    for level in (0.0, 0.4, 0.5, 0.6, 0.7, 0.8):
        sure = judged & (among.max(axis=1) >= level)
        true = sure & (among.argmax(axis=1) + 1 == kinds)
        said, right_said = (usual * sure).sum() / (usual * judged).sum(), (usual * true).sum() / (usual * sure).sum()
        print(f"changes of things, level {level}: said {said:.3f}, right {right_said:.3f}")
    for number, kind in enumerate(KINDS):
        told = Counter(KINDS[each] for each in found[kinds == number].argmax(axis=1))
        print(f"  {kind}: {dict(told.most_common())}")


def fit(options: argparse.Namespace) -> None:
    cases: list[Case] = [case for path in options.signs for case in pickle.loads(path.read_bytes())]
    names = list(cases[0][0])
    values = np.nan_to_num(np.array([[each[name] for name in names] for each, _, _ in cases], np.float32))
    kinds = np.array([KIND_IDS[kind] for _, kind, _ in cases])
    fold = np.array([zlib.crc32(ground.encode()) % FOLDS for *_, ground in cases])
    mean, scale = values.mean(axis=0), values.std(axis=0) + np.float32(0.01)
    scaled = np.clip((values - mean) / scale, -4, 4)
    found = np.zeros((len(cases), len(KINDS)), np.float32)
    for each in range(FOLDS):
        found[fold == each] = probabilities(fitted(scaled[fold != each], kinds[fold != each]), scaled[fold == each])
    report(found, kinds, values[:, names.index("changed")] > 0)
    networks = fitted(scaled, kinds)
    stored = {"names": np.array(names), "mean": mean, "scale": scale}
    linear = [[layer for layer in network if isinstance(layer, nn.Linear)] for network in networks]
    for number, layers in enumerate(zip(*linear, strict=True)):
        stored[f"weight{number}"] = np.stack([each.weight.detach().numpy() for each in layers]).astype(np.float16)
        stored[f"offset{number}"] = np.stack([each.bias.detach().numpy() for each in layers]).astype(np.float16)
    np.savez_compressed(options.folder / FILE, **stored)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    first = verbs.add_parser("signs")
    first.add_argument("out", type=Path)
    first.add_argument("--library", type=Path, required=True)
    first.add_argument("--pairs", type=int, default=200)
    first.add_argument("--seed", type=int, default=7)
    first.add_argument("--first", type=int, default=0, help="number of the first scene")
    second = verbs.add_parser("fit")
    second.add_argument("folder", type=Path)
    second.add_argument("signs", type=Path, nargs="+")
    options = parser.parse_args()
    {"signs": signs, "fit": fit}[options.verb](options)


if __name__ == "__main__":
    main()
