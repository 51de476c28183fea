"""Every objective in two processes through the command line, as `torchrun` starts them; a lost one, and going on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import psutil
import pytest
import yaml
from PIL import Image, ImageDraw

from spotchange.config.objectives import ReplySettings
from spotchange.everyday.collecting import add_backgrounds, add_objects
from spotchange.models.vlm.scratch import build_scratch
from spotchange.training.checkpoints import load_state
from spotchange.training.log import read_log
from spotchange.training.objectives.build import OBJECTIVES

TWO = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
STREAM: dict[str, Any] = {"kind": "stream", "quality": "fast", "scenes": {"max_objects": 4}}
TINY: dict[str, Any] = {
    "preset": "spotchange-tiny",
    "vision": {"image_size": [24, 36], "width": 16, "layers": 2, "n_inter": 1, "output_width": 16},
    "text": {"width": 16, "layers": 1, "context": 24},
    "captioner": {"width": 16, "dropout": 0.3},
}
SCENE_CLIP: dict[str, Any] = {
    "preset": "scene-clip",
    "vision": {"image_size": [24, 36], "stem_channels": [8, 8], "patch": 12, "width": 16, "heads": 2, "layers": 1},
    "text": {"width": 16, "heads": 2, "layers": 1},
}
SMALL_RESNET = {"resnet_depths": [1, 1, 1, 1], "resnet_channels": [8, 8, 8, 16], "image_size": [64, 96]}
IDC_PCL: dict[str, Any] = {
    "preset": "idc-pcl-resnet50",
    "vision": SMALL_RESNET,
    "text": {"width": 32, "context": 24},
    "captioner": {"width": 32, "heads": 2, "decoder_layers": 1},
    "heads": {"pretraining": True},
    "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0},
}
R3NET: dict[str, Any] = {
    "preset": "baseline",
    "vision": {**SMALL_RESNET, "resnet_depths": [1, 1, 1], "resnet_channels": [16, 16, 32]},
    "baseline": {"system": "r3net", "sizes": {"hidden": 16, "word": 8, "width": 32}},
}
EVERYDAY: dict[str, Any] = {"preset": "spotchange-everyday", "vision": {"image_size": [64, 64]}}
PCL_TASKS = {"kind": "pcl-pretrain", "tasks": {"mlm": 1, "mvcl": 1, "fda": 1}, "fda_batch": "pairs"}


def drawn_library(folder: Path) -> Path:
    """A few shapes and plain backgrounds, of both splits."""
    for split in ("train", "held-out"):
        things, photos = folder / split / "things", folder / split / "photos"
        things.mkdir(parents=True)
        photos.mkdir()
        for noun, colour in {"mug": "red", "apple": "green", "chair": "blue", "laptop": "gray"}.items():
            thing = Image.new("RGBA", (64, 48))
            ImageDraw.Draw(thing).ellipse((4, 4, 59, 43), fill=colour)
            thing.save(things / f"{noun}_01.png")
        Image.effect_noise((128, 96), 40).convert("RGB").save(photos / "0.png")
        add_objects(things, folder / "library", split=split)
        add_backgrounds(photos, folder / "library", split=split)
    return folder / "library"


def tiny_llava(folder: Path) -> Path:
    made = build_scratch("scratch/llava-tiny")
    made.model.save_pretrained(folder)
    made.processor.save_pretrained(folder)
    return folder


def recipes(folder: Path) -> dict[str, dict[str, Any]]:
    """One stage for each objective; IDC-PCL's second goes on from its first."""
    library = {"kind": "everyday", "library": str(drawn_library(folder / "drawn"))}
    features = {"kind": "features", "path": str(folder / "features"), "scenes": 4, "of": STREAM}
    lora = {"rank": 2, "alpha": 4, "dropout": 0.1, "targets": "all-linear"}
    llava = {"base": str(tiny_llava(folder / "llava")), "prompt": "plain", "image_size": [24, 32], "lora": lora}
    return {
        "dense": stage(TINY, STREAM, {"kind": "dense"}),
        "image-text": stage(SCENE_CLIP, STREAM, {"kind": "image-text"}, max_words=64),
        "adapt": stage(TINY, STREAM, {"kind": "adapt"}),
        "caption": stage(TINY | {"text": {**TINY["text"], "encoder": False}}, STREAM, {"kind": "caption"}),
        "pcl-pretrain": stage(IDC_PCL, STREAM, PCL_TASKS),
        "pcl-finetune": stage(
            IDC_PCL, STREAM, {"kind": "pcl-finetune"}, start_from=str(folder / "pcl-pretrain" / "best")
        ),
        "baseline": stage(R3NET, features, {"kind": "baseline"}),
        "everyday": stage(EVERYDAY, library, {"kind": "everyday", "window": 32}),
        "reply": stage(llava, STREAM, {"kind": "reply"}),
    }


def stage(model: dict[str, Any], data: dict[str, Any], objective: dict[str, Any], **more: Any) -> dict[str, Any]:
    held_out = {"data": {**data, "split": "held-out"}} if data["kind"] == "everyday" else {}
    held_out |= {"data": data} if data["kind"] == "features" else {}
    return {
        "name": objective["kind"],
        "seed": 1,
        "model": model,
        "data": data,
        "stage": {"objective": objective, "steps": 3, "pairs_per_step": 8, "max_words": 24, **more},
        "validation": {"every": 2, "pairs": 4, "pairs_per_batch": 4, "max_words": 8, **held_out},
        "log": {"every": 1},
    }


@pytest.mark.slow
def test_every_objective_trains_in_two_processes_and_goes_on_in_one(tmp_path: Path) -> None:
    wanted = recipes(tmp_path)
    kinds = {get_args(each.model_fields["kind"].annotation)[0] for each in (*OBJECTIVES, ReplySettings)}
    assert wanted.keys() == kinds  # whoever adds an objective adds it here
    for name, values in wanted.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(values))
    (tmp_path / "recipes.txt").write_text("\n".join(wanted))
    many = [str(Path(__file__).with_name("many_stages.py")), str(tmp_path)]
    done = subprocess.run([*TWO, *many, "--until", "2"], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [each["step"] for each in told] == [2] * len(wanted)  # only the first process speaks
    for name in wanted:
        log = read_log(tmp_path / name / "log.jsonl")
        assert log[0]["processes"] == 2, name
        assert [line["step"] for line in log if line["kind"] == "validation"] == [2], name  # once, by one of them
        assert len(load_state(tmp_path / name / "last")["random"]) == 2, name
    # One process goes on with each and finishes it.
    alone = [sys.executable, *many, "--resume"]
    done = subprocess.run(alone, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(each["step"], each["finished"]) for each in told] == [(3, True)] * len(wanted)


LOST: dict[str, Any] = {
    "name": "lost",
    "seed": 5,
    "model": TINY | {"text": {**TINY["text"], "encoder": False}},
    "data": {"kind": "stream", "scenes": {"max_objects": 4}},
    "stage": {"objective": {"kind": "caption"}, "steps": 400, "pairs_per_step": 8},
    "validation": {"every": 400, "pairs": 4, "pairs_per_batch": 4, "metric": "loss"},
    "checkpoints": {"every": 2},
    "log": {"every": 1},
}


@pytest.mark.slow
def test_a_lost_process_ends_the_run_and_one_process_goes_on_from_there(tmp_path: Path) -> None:
    recipe, out = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(yaml.safe_dump(LOST))
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
