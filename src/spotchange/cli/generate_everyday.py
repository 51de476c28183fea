"""`spotchange generate --world everyday`: pairs of things pasted on photos and in rooms."""

from __future__ import annotations

import time
from pathlib import Path

from spotchange.cli.device import pick_device
from spotchange.cli.output import notes, print_json, progress
from spotchange.errors import InputError

SIDE = 288  # of the images, unless --size says otherwise
PAIRS = 1000  # where no number is given
LARGEST_SIDE = 4096
LARGEST_SEED = (2**63 - 1) // 4  # every split has a seed of its own, made from this one


def everyday_split(
    *,
    out: Path,
    pairs: int | None,
    seed: int,
    split: str,
    size: str,
    changes: str | None,
    device: str,
    library: Path | None,
    as_json: bool,
) -> None:
    """Write a split of everyday pairs; the held-out things and photos are for val and test."""
    from spotchange.cli.generate import parse_size
    from spotchange.everyday.dataset import SPLIT_SEEDS, EverydayPlan, generate_everyday
    from spotchange.everyday.library import bundled_library, read_library

    if split not in SPLIT_SEEDS:
        raise InputError(f"unknown split '{split}'", hint=f"use one of {', '.join(SPLIT_SEEDS)}")
    wanted = parse_size(size) if size != "480x320" else {"width": SIDE, "height": SIDE}
    if wanted["width"] != wanted["height"] or wanted["width"] % 16:
        raise InputError(f"everyday images are square and a multiple of 16 pixels wide, not {size}")
    if wanted["width"] > LARGEST_SIDE:
        raise InputError(f"everyday images are at most {LARGEST_SIDE} pixels wide, not {size}")
    if seed > LARGEST_SEED:
        raise InputError(f"--seed {seed} is too large", hint=f"at most {LARGEST_SEED}")
    most = 1 if changes is None else _number_of_changes(changes)
    if pairs is not None and pairs < 1:
        raise InputError(f"--pairs {pairs} is no number of pairs to write")
    folder = bundled_library() if library is None else library
    began = time.perf_counter()
    things = read_library(folder, split="train" if split == "train" else "held-out", device=pick_device(device))
    name = "bundled" if library is None else str(library)
    plan = EverydayPlan(split=split, seed=seed, side=wanted["width"], library=name, changes=most)
    count = PAIRS if pairs is None else pairs
    with progress() as bar:
        task = bar.add_task(f"{split}: pairs", total=count)
        written = generate_everyday(plan, things, out=out, pairs=count, on_pairs=lambda done: bar.advance(task, done))
    seconds = round(time.perf_counter() - began, 2)
    if as_json:
        print_json({"out": str(out), "seed": seed, "splits": [vars(written)], "seconds": seconds})
        return
    notes().print(f"{out / split}: {written.pairs} pairs ({written.new_pairs} new)", markup=False, soft_wrap=True)


def _number_of_changes(changes: str) -> int:
    from spotchange.everyday.scenes import THINGS

    if changes not in map(str, range(1, THINGS + 1)):
        raise InputError(
            f"--changes {changes!r} is no number of things from 1 to {THINGS}",
            hint="of an everyday scene it says how many change at most; kinds of change are for the table top",
        )
    return int(changes)
