"""Whether a machine has what a plan needs, in seconds: run before anything that costs minutes of a GPU.

python benchmarks/gpu_check.py PLAN.yaml [--set NAME=VALUE] [--cpu]

Looks for packages, imports all that the jobs import and reads the recipes and cells that they name; unless --cpu it
also looks for the files under `needs` and launches one numba kernel, one Triton kernel and one compiled graph on the
GPU. Prints every problem it finds, not the first alone, and ends with code 2 if there is one; with 3 if it is torch's
compiler.
"""

from __future__ import annotations

import argparse
import importlib
import runpy
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

PACKAGES = (
    "numpy", "yaml", "pydantic", "rich", "typer", "PIL", "safetensors", "tokenizers", "torch", "accelerate",
    "transformers", "numba",
)  # fmt: skip
COMPILING = 60  # seconds for one small graph
# What the commands of the plans import at once or on their way.
MODULES = (
    "spotchange.cli.main",
    "spotchange.training.run",
    "spotchange.training.ablation.parallel",
    "spotchange.training.sources.extraction",
    "spotchange.scenes.rendering.renderer",
    "spotchange.models.weights.bundled",
)


def problems(plan: Path, changes: list[str], *, cpu: bool) -> Iterator[str]:
    """One line for everything that is missing."""
    missing = [name for name in PACKAGES if not _imports(name)]
    yield from (f"package {name} is missing" for name in missing)
    if missing:
        return
    for name in MODULES:
        try:
            importlib.import_module(name)
        except Exception as error:  # an import may fail in any way
            yield f"{name} cannot be imported: {type(error).__name__}: {error}"
    yield from _plan_problems(plan, changes, needs=not cpu)
    if not cpu:
        yield from _device_problems()


def _imports(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _plan_problems(path: Path, changes: list[str], *, needs: bool) -> Iterator[str]:
    from gpu_plan import read_plan  # it needs yaml, which may be what is missing
    from spotchange.errors import SpotchangeError

    plan = read_plan(path, changes)
    if needs:
        yield from (f"{need} is missing" for need in plan.needs if not Path(need).exists())
    for job in plan.jobs:
        words = shlex.split(job.run.replace("{train}", "1.0").replace("{left}", "1.0"))
        set_to = [value for option, value in pairwise(words) if option == "--set"]
        try:
            _read(words, set_to)
        except (SpotchangeError, OSError, ImportError) as error:
            yield f"{job.name}: {error}"


def _read(words: list[str], changes: list[str]) -> None:
    """The recipe that a job names, or the program, without running either."""
    from spotchange.config.ablation import Ablation
    from spotchange.config.recipes import ABLATIONS, find_recipe
    from spotchange.config.training import Recipe

    if "features" in words:
        Recipe.from_yaml(find_recipe(words[words.index("features") + 1]), changes)
    elif "train" in words:
        Recipe.from_yaml(find_recipe(words[words.index("train") + 1]), changes)
    elif "ablate" in words:
        table = Ablation.from_yaml(find_recipe(words[words.index("ablate") + 1], within=ABLATIONS), changes)
        table.only([value for option, value in pairwise(words) if option == "--only"])
    for program in words:
        if program.endswith(".py"):
            runpy.run_path(program, run_name="read only")


def _device_problems() -> Iterator[str]:
    import torch

    if not torch.cuda.is_available():
        yield "torch sees no GPU"
        return
    free, total = torch.cuda.mem_get_info()
    if free < 0.9 * total:
        yield f"only {free / 2**30:.0f} of {total / 2**30:.0f} GiB of the GPU are free: what else runs there?"
    for name, attempt in (("numba", _numba_kernel), ("Triton", _triton_kernel)):
        try:
            attempt()
        except Exception as error:  # whatever a compiler may raise
            yield f"{name} does not run on the GPU: {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _numba_kernel() -> None:
    import torch

    from spotchange.scenes.patch_labels import patch_shares

    ids = torch.tensor([[[1, 0], [1, 2]]], dtype=torch.uint8)[None]
    if not torch.equal(patch_shares(ids.cuda(), (1, 2)).cpu(), patch_shares(ids, (1, 2))):
        raise ValueError("counts differ from the CPU's")


def _triton_kernel() -> None:
    import torch

    from spotchange.models.decoding.argmax_kernel import likeliest_in_one_pass
    from spotchange.models.decoding.torch_arrays import likeliest

    scores = torch.linspace(-1, 1, 6000, device="cuda").sin().view(2, 3000)
    for ours, plain in zip(likeliest_in_one_pass(scores, None), likeliest(scores), strict=True):
        torch.testing.assert_close(ours, plain)


COMPILED = """
import torch
values = torch.linspace(-1, 1, 64, device="cuda")
doubled = torch.compile(lambda values: torch.nn.functional.gelu(2 * values), dynamic=False)
torch.testing.assert_close(doubled(values), torch.nn.functional.gelu(2 * values))
"""


def compiler_problem() -> str | None:
    """What is wrong with torch's compiler on the GPU: in a process of its own, since it may never end."""
    try:
        done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, timeout=COMPILING)
    except subprocess.TimeoutExpired:
        return f"torch.compile took more than {COMPILING} s"
    return None if done.returncode == 0 else f"torch.compile fails: {' '.join(done.stderr.split())[-300:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--cpu", action="store_true", help="leave out the GPU and what is brought there")
    options = parser.parse_args()
    began, found = time.monotonic(), list(problems(options.plan, options.changes, cpu=options.cpu))
    for line in found:
        print(f"missing: {line}", flush=True)
    slow = None if found or options.cpu else compiler_problem()
    if slow is not None:
        print(slow, flush=True)
    print(f"checked in {time.monotonic() - began:.0f} s: {len(found)} problems", flush=True)
    sys.exit(2 if found else 3 if slow else 0)


if __name__ == "__main__":
    main()
