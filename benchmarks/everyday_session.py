"""A whole session on a GPU, each part in a process of its own so that one failure does not lose the rest.

python benchmarks/everyday_session.py --out FOLDER [--minutes 6.8] [--start MODEL_FOLDER]

Trains, prints the figures, times the compositor, and leaves in FOLDER the model as parts of a tar file below 15 MiB
(every now and then while it trains), and the raw scores for calibration.
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
_AFTER = 2.0  # minutes for starting up, packing, figures and timing
RECIPE = "src/spotchange/recipes/everyday/train.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=8.0)
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
    """All parts, one after the other; the model is packed every now and then, so that none is lost at the limit."""
    began = time.time()
    out, run = options.out, Path("out/everyday-session")
    out.mkdir(parents=True, exist_ok=True)
    settings: dict[str, Any] = {}
    if options.start is not None:
        settings |= {"stage.start_from": str(options.start), "model": None}
    if options.small:
        settings |= {"stage.precision": "fp32", "stage.pairs_per_step": 2, "log.every": 1, "stage.steps": 3}
        settings |= {"validation.pairs": 2, "validation.pairs_per_batch": 2, "checkpoints.every": 2}
        for name in ("data", "validation.data"):
            settings |= {f"{name}.most_objects": 12, f"{name}.most_backgrounds": 4}
    minutes = min(options.minutes, options.total - _AFTER)
    settings["stage.max_minutes"] = round(minutes, 2)
    command = [sys.executable, __file__, "--out", str(run), "--recipe", options.recipe]
    training = subprocess.Popen([*command, "--train", json.dumps(settings)], env=os.environ)
    limit = 60 * (options.total - 0.7)
    packed = time.time()
    while training.poll() is None:
        time.sleep(1)
        if time.time() - began > limit:
            training.kill()
            print("[train] was stopped at its limit", flush=True)
        elif time.time() - packed > 45:
            packed = time.time()
            pack(run, out)
    print(f"[train] ended with {training.returncode} after {time.time() - began:.0f} s", flush=True)
    best = pack(run, out)
    if best is None:
        print("no model was saved", flush=True)
        return
    left = 60 * options.total - (time.time() - began)
    figures = ["benchmarks/everyday_figures.py", str(best), options.library, "--save", str(out / "raw.npz")]
    figures += ["--pairs", "4", "--batch", "2", "--most-objects", "8"] if options.small else ["--pairs", "2048"]
    call("figures", [sys.executable, *figures], limit=max(30, left))
    left = 60 * options.total - (time.time() - began)
    if not options.small and left > 15:
        call("compositing", [sys.executable, "benchmarks/everyday_compositing.py", options.library], limit=left)
    print(f"minutes in all: {(time.time() - began) / 60:.2f}", flush=True)


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
    """One stage, by its recipe with some settings changed; says how long its parts took."""
    began = time.time()
    import torch
    import yaml

    from spotchange.config.training import Recipe
    from spotchange.training.run import prepare
    from spotchange.training.stopping import StopRequest

    # Two hundred convolutions with ten ways each took 48 s to choose among: an eighth of the session.
    torch.backends.cudnn.benchmark_limit = 2
    print(f"[{time.time() - began:.1f} s] imported", flush=True)
    values = yaml.safe_load(Path(recipe).read_text(encoding="utf-8"))
    for name, value in settings.items():
        *groups, last = name.split(".")
        group = values
        for each in groups:
            group = group.setdefault(each, {})
        group[last] = value
    trainer = prepare(Recipe.from_mapping(values, source=recipe), out=out, device="auto")
    print(f"[{time.time() - began:.1f} s] prepared: library, model, held-out pairs", flush=True)
    trainer.source.next_batch()
    print(f"[{time.time() - began:.1f} s] first batch", flush=True)
    print(trainer.run(resume=False, stop=StopRequest()), flush=True)


def pack(run: Path, out: Path) -> Path | None:
    """The newest model folder and the log as parts of one tar file; None before there is one."""
    best = next((folder for folder in (run / "best", run / "last") if (folder / "config.json").exists()), None)
    if best is None:
        return None
    whole = run / "model.tar"
    try:
        with tarfile.open(whole, "w") as archive:
            for file in sorted(best.iterdir()):
                if file.stat().st_size < 2 * PART:  # not the optimizer's state
                    archive.add(file, arcname=f"spotchange-everyday/{file.name}")
            for log in run.glob("*.jsonl"):
                archive.add(log, arcname=log.name)
    except OSError as error:  # a folder that was just being replaced
        print(f"not packed: {error}", flush=True)
        return best
    data = whole.read_bytes()
    for number, first in enumerate(range(0, len(data), PART)):
        (out / f"model.tar.{number}").write_bytes(data[first : first + PART])
    print(f"packed {len(data) / 2**20:.1f} MiB of {best}", flush=True)
    return best


if __name__ == "__main__":
    main()
