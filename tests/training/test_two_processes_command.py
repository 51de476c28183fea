"""Stages in two processes through the command line, as `torchrun` starts them; a lost one, and going on with one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from spotchange.training.checkpoints import load_state
from spotchange.training.log import read_log

MODEL: dict[str, Any] = {
    "preset": "idc-pcl-resnet50",
    "vision": {"resnet_depths": [1, 1, 1, 1], "resnet_channels": [8, 8, 8, 16], "image_size": [64, 96]},
    "text": {"width": 32, "context": 24},
    "captioner": {"width": 32, "heads": 2, "decoder_layers": 1},
    "heads": {"pretraining": True},
    "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0},
}
TWO = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def train(folder: Path, name: str, objective: dict[str, Any], **stage: Any) -> dict[str, Any]:
    """Two steps in two processes; what the first of them printed."""
    recipe = {
        "name": name,
        "seed": 1,
        "model": MODEL,
        "data": {"kind": "stream"},
        "stage": {"objective": objective, "steps": 2, "pairs_per_step": 8, "max_words": 24, **stage},
        "validation": {"every": 2, "pairs": 4, "pairs_per_batch": 4},
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(recipe))
    command = [*TWO, "-m", "spotchange", "train", str(path), "--out", str(folder / name), "--device", "cpu", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_pretraining_hands_over_to_fine_tuning(tmp_path: Path) -> None:
    tasks = {"mlm": 1, "mvcl": 1, "fda": 1}
    first = train(tmp_path, "pretrain", {"kind": "pcl-pretrain", "tasks": tasks, "fda_batch": "pairs"})
    assert first["finished"]
    second = train(tmp_path, "finetune", {"kind": "pcl-finetune"}, start_from=str(tmp_path / "pretrain" / "best"))
    assert second["finished"]
    assert second["metric"] == "CIDEr-D"
    log = [json.loads(line) for line in (tmp_path / "finetune" / "log.jsonl").read_text().splitlines()]
    assert log[0]["processes"] == 2


TINY: dict[str, Any] = {
    "name": "lost",
    "seed": 5,
    "model": {
        "preset": "spotchange-tiny",
        "vision": {"image_size": [24, 36], "width": 16, "layers": 2, "n_inter": 1, "output_width": 16},
        "text": {"width": 16, "layers": 1, "encoder": False},
        "captioner": {"width": 16, "dropout": 0.3},
    },
    "data": {"kind": "stream", "scenes": {"max_objects": 4}},
    "stage": {"objective": {"kind": "caption"}, "steps": 400, "pairs_per_step": 8},
    "validation": {"every": 400, "pairs": 4, "pairs_per_batch": 4, "metric": "loss"},
    "checkpoints": {"every": 2},
    "log": {"every": 1},
}


@pytest.mark.slow
def test_a_lost_process_ends_the_run_and_one_process_goes_on_from_there(tmp_path: Path) -> None:
    recipe, out = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(yaml.safe_dump(TINY))
    command = ["-m", "spotchange", "train", str(recipe), "--out", str(out), "--device", "cpu", "--json"]
    group = subprocess.Popen([*TWO, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not (out / "last").is_dir() or not any(line.get("step", 0) >= 5 for line in read_log(out / "log.jsonl")):
            assert group.poll() is None, "the run ended before a process could be lost"
            time.sleep(0.02)
        ranks = {
            each.environ()["RANK"]: each for each in psutil.Process(group.pid).children() if "RANK" in each.environ()
        }
        ranks["1"].kill()
        assert group.wait(timeout=120) != 0
    finally:
        group.kill()
    saved = load_state(out / "last")
    assert len(saved["random"]) == 2
    goes_on = [sys.executable, *command, "--resume", "--until", str(saved["step"] + 3)]
    done = subprocess.run(goes_on, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = load_state(out / "last")
    assert found["step"] == saved["step"] + 3
    # Scenes are counted over all processes: two of them had four pairs a step each, one has all eight.
    a_step = saved["sources"][0]["next_scene"] / saved["step"]
    assert found["sources"][0]["next_scene"] == saved["sources"][0]["next_scene"] + 3 * a_step
