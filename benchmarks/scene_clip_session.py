"""Scene-CLIP, or one stage of any recipe, in one GPU session: train, pack, measure; each in a process of its own.

python benchmarks/scene_clip_session.py --out FOLDER [--minutes 9] [--total 9.6] [--start MODEL_FOLDER]
    [--recipe scene_clip/train] [--set KEY=VALUE]

Leaves in FOLDER the model in fp16 as parts of a tar file below 15 MiB, and `figures.json`. Should compilation of the
whole graph fail, training begins anew with blocks compiled one by one, and then without.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

PART = 14 * 2**20
STARTING = 1.6  # minutes for imports, kernels and held-out pictures before the first step
AFTER = 1.3  # minutes for packing and figures
COMPILE_LIMIT = 4.0  # minutes that a way of compiling may take to give its first logged step
RECIPE = "scene_clip/train"
RUN = Path("out/scene-clip")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--total", type=float, default=9.6, help="minutes for everything; training gives way")
    parser.add_argument("--start", type=Path, help="go on from this model folder")
    parser.add_argument("--recipe", default=RECIPE)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--train", help="used by the session itself: train with these settings (JSON)")
    parser.add_argument("--small", action="store_true", help="a few pictures only, to try the session on a CPU")
    options = parser.parse_args()
    if options.train is not None:
        train(options.recipe, options.out, [*json.loads(options.train), *options.set])
    else:
        session(options)


def session(options: argparse.Namespace) -> None:
    """All parts, one after the other."""
    began = time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    base = small_settings() if options.small else {}
    if options.start is not None:
        base["stage.start_from"] = str(options.start)
    best = None
    for number, compiled in enumerate((False,) if options.small else ("whole", True, False)):
        run = RUN.with_name(f"{RUN.name}-{number}")
        minutes = min(options.minutes, options.total - (time.time() - began) / 60 - STARTING - AFTER)
        settings = base | {"stage.compile": compiled, "stage.max_minutes": round(max(minutes, 0.3), 2)}
        changes = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
        command = [sys.executable, __file__, "--recipe", options.recipe, "--out", str(run)]
        command += ["--train", json.dumps(changes), *(part for each in options.set for part in ("--set", each))]
        call(f"train, compile {compiled}", command, limit=60 * (minutes + STARTING) + 15, log=run / "log.jsonl")
        best = next((each for each in (run / "best", run / "last") if (each / "config.json").exists()), None)
        if best is not None:
            break
    if best is None:
        print("no model was saved", flush=True)
        return
    pack(best, options.out)
    if options.recipe != RECIPE:
        return
    figures = [sys.executable, "benchmarks/scene_clip.py", str(best), "--out", str(options.out / "figures.json")]
    figures += ["--pictures", "20", "--fit", "20"] if options.small else ["--pictures", "1000", "--fit", "1000"]
    call("figures", figures, limit=110)
    print(f"minutes in all: {(time.time() - began) / 60:.2f}", flush=True)


def small_settings() -> dict[str, Any]:
    """A few steps of a few pictures in fp32."""
    return {
        "stage.precision": "fp32",
        "stage.steps": 2,
        "stage.pairs_per_step": 4,
        "validation.pairs": 4,
        "validation.pairs_per_batch": 4,
        "log.every": 1,
    }


def call(name: str, command: list[str], *, limit: float, log: Path | None = None) -> None:
    """Run with a limit in seconds, and with one for the first line of a log; says how it ended."""
    began = time.time()
    process = subprocess.Popen(command)
    while process.poll() is None:
        spent = time.time() - began
        silent = log is not None and not log.exists() and spent > 60 * COMPILE_LIMIT
        if spent > limit or silent:
            process.kill()
            process.wait()
        time.sleep(1.0)
    print(f"[{name}] ended with {process.returncode} after {time.time() - began:.0f} s", flush=True)


def train(recipe: str, out: Path, changes: list[str]) -> None:
    """A recipe with some settings changed."""
    from spotchange.config.recipes import find_recipe
    from spotchange.config.training import Recipe
    from spotchange.training.run import run_stage

    print(run_stage(Recipe.from_yaml(find_recipe(recipe), changes), out=out, device="auto"), flush=True)


def pack(model: Path, out: Path) -> None:
    """The model folder and the log as parts of one tar file."""
    whole = model.parent / "model.tar"
    with tarfile.open(whole, "w") as archive:
        archive.add(model, arcname="model", filter=lambda each: None if each.name.endswith("state.pt") else each)
        archive.add(model.parent / "log.jsonl", arcname="log.jsonl")
    data = whole.read_bytes()
    for number, first in enumerate(range(0, len(data), PART)):
        (out / f"model.tar.{number}").write_bytes(data[first : first + PART])
    print(f"packed {len(data) / 2**20:.1f} MiB of {model}", flush=True)


if __name__ == "__main__":
    main()
