"""A whole session on a GPU, each part in a process of its own so that one failure does not lose the rest.

python benchmarks/everyday_session.py --out FOLDER [--minutes 6.8] [--start MODEL_FOLDER]

Times the compositor, tries three steps (without compilation, should it fail with it), trains, prints the figures, and
leaves in FOLDER the model as parts of a tar file below 15 MiB, the log and the raw scores for calibration.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

PART = 14 * 2**20
_AFTER = 1.9  # minutes for starting up, packing, figures and timing
RECIPE = "src/spotchange/recipes/everyday/train.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=6.8)
    parser.add_argument("--total", type=float, default=9.6, help="minutes for everything; training gives way")
    parser.add_argument("--start", type=Path, help="go on from this model folder")
    parser.add_argument("--library", default="build/everyday-assets")
    parser.add_argument("--recipe", default=RECIPE)
    parser.add_argument("--train", help="used by the session itself: train with these settings (JSON)")
    parser.add_argument("--small", action="store_true", help="a few pairs only, to try the session on a CPU")
    options = parser.parse_args()
    if options.train is not None:
        train(options.recipe, options.out, json.loads(options.train))
        return
    session(options)


def session(options: argparse.Namespace) -> None:
    """All parts, one after the other."""
    began = time.time()
    out, run = options.out, Path("out/everyday-session")
    out.mkdir(parents=True, exist_ok=True)
    base: dict[str, Any] = {}
    if options.start is not None:
        base |= {"stage.start_from": str(options.start), "model": None}
    if options.small:
        base |= {"stage.precision": "fp32", "stage.compile": False, "stage.pairs_per_step": 2, "log.every": 1}
        base |= {"validation.pairs": 2, "validation.pairs_per_batch": 2}
        for name in ("data", "validation.data"):
            base |= {f"{name}.most_objects": 12, f"{name}.most_backgrounds": 4}
    tiny = base | {"stage.steps": 3, "stage.max_minutes": None, "checkpoints.every": 1000, "validation.every": 1000}
    tried = part("try", ["--train", json.dumps(tiny)], out=Path("out/everyday-try"), limit=230)
    if not tried:
        base["stage.compile"] = False
        tiny["stage.compile"] = False
        part("try uncompiled", ["--train", json.dumps(tiny)], out=Path("out/everyday-try2"), limit=90)
    spent = (time.time() - began) / 60
    print(f"minutes before training: {spent:.2f}", flush=True)
    minutes = min(options.minutes, options.total - spent - _AFTER)
    full = base | {"stage.max_minutes": round(minutes, 2)}
    if options.small:
        full |= {"stage.steps": 3, "checkpoints.every": 2}
    part("train", ["--train", json.dumps(full)], out=run, limit=60 * minutes + 75)
    best = next((folder for folder in (run / "best", run / "last") if (folder / "config.json").exists()), None)
    if best is None:
        print("no model was saved", flush=True)
        return
    pack(best, run, out)
    figures = ["benchmarks/everyday_figures.py", str(best), options.library, "--save", str(out / "raw.npz")]
    figures += ["--pairs", "4", "--batch", "2", "--most-objects", "8"] if options.small else ["--pairs", "3072"]
    call("figures", [sys.executable, *figures], limit=100)
    if not options.small:
        call("compositing", [sys.executable, "benchmarks/everyday_compositing.py", options.library], limit=90)
    print(f"minutes in all: {(time.time() - began) / 60:.2f}", flush=True)


def part(name: str, arguments: list[str], *, out: Path, limit: float) -> bool:
    """One training in a process of its own."""
    return call(name, [sys.executable, __file__, "--out", str(out), *arguments], limit=limit)


def call(name: str, command: list[str], *, limit: float) -> bool:
    """Run, with a limit in seconds; says how it ended."""
    began = time.time()
    try:
        code = subprocess.run(command, timeout=limit, env=os.environ, check=False).returncode
    except subprocess.TimeoutExpired:
        code = -1
    print(f"[{name}] ended with {code} after {time.time() - began:.0f} s", flush=True)
    return code == 0


def train(recipe: str, out: Path, settings: dict[str, Any]) -> None:
    """One stage, by its recipe with some settings changed."""
    import yaml

    from spotchange.config.training import Recipe
    from spotchange.training.run import run_stage

    values = yaml.safe_load(Path(recipe).read_text(encoding="utf-8"))
    for name, value in settings.items():
        *groups, last = name.split(".")
        group = values
        for each in groups:
            group = group.setdefault(each, {})
        group[last] = value
    print(run_stage(Recipe.from_mapping(values, source=recipe), out=out, device="auto"), flush=True)


def pack(model: Path, run: Path, out: Path) -> None:
    """The model folder and the log as parts of one tar file."""
    whole = run / "model.tar"
    with tarfile.open(whole, "w") as archive:
        archive.add(model, arcname="spotchange-everyday")
        for log in run.glob("*.jsonl"):
            archive.add(log, arcname=log.name)
    data = whole.read_bytes()
    for number, first in enumerate(range(0, len(data), PART)):
        (out / f"model.tar.{number}").write_bytes(data[first : first + PART])
    print(f"packed {len(data) / 2**20:.1f} MiB of {model}", flush=True)


if __name__ == "__main__":
    main()
