"""Every job of an ablation for two steps of four pairs on the CPU: what would stop it on a GPU, stops it here.

python benchmarks/ablation_small.py NAME --out FOLDER [--set start=FOLDER ...] [--only CELL ...]

Goes through training, validation, test pairs and saving, in full precision, uncompiled; one seed. Prints a line a job
and ends with code 2 if one failed. The numbers mean nothing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from spotchange.config.ablation import Ablation
from spotchange.config.recipes import ABLATIONS, find_recipe
from spotchange.config.training import Recipe
from spotchange.errors import SpotchangeError
from spotchange.training.ablation.table import plan
from spotchange.training.run import run_stage

SCENES, STEPS, PAIRS = 6, 2, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--only", action="append", default=[], metavar="CELL")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    try:
        ablation = Ablation.from_yaml(find_recipe(given.name, within=ABLATIONS), given.changes).only(given.only)
    except SpotchangeError as error:
        sys.exit(f"error: {error}")
    failed: dict[str, str] = {}
    for job in plan(ablation, given.out):
        if job.recipe.seed != ablation.seeds[0] or job.chain in failed:
            continue
        shutil.rmtree(job.out, ignore_errors=True)  # of a former try
        try:
            run_stage(small(job.recipe, given.out), out=job.out, device="cpu")
        except Exception as error:  # whatever it is, the other jobs are worth a look
            failed[job.chain] = f"{type(error).__name__}: {error}"
        print(f"{job.label}: {failed.get(job.chain, 'ok')}", flush=True)
    sys.exit(2 if failed else 0)


def small(recipe: Recipe, out: Path) -> Recipe:
    """The same run, cut down after its cell has changed it: an option of `ablate` would be overruled by the cell."""
    values: dict[str, Any] = recipe.model_dump(mode="json")
    for source in (values["data"], values["validation"]["data"]):
        if source is not None and source.get("kept"):
            source |= {"kept": str(out / "scenes"), "kept_scenes": SCENES}
        if source is not None and source.get("scenes") and source["kind"] == "features":
            source |= {"path": str(out / "features" / Path(source["path"]).name), "scenes": SCENES}
    values["stage"] |= {"steps": STEPS, "pairs_per_step": PAIRS, "accumulate": 1}
    values["stage"] |= {"precision": "fp32", "compile": False, "cuda_graph": False}
    checked = values["validation"]
    checked |= {"every": STEPS, "pairs": PAIRS, "pairs_per_batch": PAIRS}
    checked["test_pairs"] = checked["test_pairs"] and PAIRS
    values["log"]["every"] = 1
    return Recipe.from_mapping(values, source=recipe.name)


if __name__ == "__main__":
    main()
