"""IDC-PCL's stages in two processes through the command line, as `torchrun` starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

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
