"""LoRA on a tiny checkpoint built here: the loss falls, a killed run ends like a straight one, the adapter answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from PIL import Image

from spotchange.answering import CaptionOptions, ImagePair, LoadOptions, build_answerer
from spotchange.config.prompts import load_prompt
from spotchange.config.training import Recipe
from spotchange.errors import ConfigError, ModelError, ReplyError
from spotchange.models.vlm.chat import ChatCoder
from spotchange.models.vlm.checkpoint import load_checkpoint
from spotchange.models.vlm.scratch import build_scratch
from spotchange.training.checkpoints import load_state
from spotchange.training.log import read_log
from spotchange.training.run import prepare, run_stage

STEPS = 24


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    made = build_scratch("scratch/llava-tiny")
    # A trained checkpoint can be sure of a word; random weights as small as they begin cannot, whatever is adapted.
    torch.nn.init.normal_(made.model.lm_head.weight, std=0.5)
    folder = tmp_path_factory.mktemp("base") / "tiny-llava"
    made.model.save_pretrained(folder)
    made.processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def values(base: Path) -> dict[str, Any]:
    """64 generated scenes, two sentences each pair of which is read again and again."""
    return {
        "name": "lora",
        "seed": 3,
        "model": {"base": str(base), "prompt": "plain", "image_size": [48, 72],
                  "lora": {"rank": 8, "alpha": 16, "dropout": 0.1, "targets": "all-linear"}},
        "data": {"kind": "stream", "kept": str(base.parent / "kept"), "kept_scenes": 64, "scenes": {"max_objects": 3}},
        "stage": {"objective": {"kind": "reply"}, "steps": STEPS, "pairs_per_step": 16, "accumulate": 2, "ema": 0.5},
        "optimizer": {"lr": 2e-2, "weight_decay": 0.0},
        "validation": {"every": 12, "pairs": 8, "pairs_per_batch": 4, "metric": "loss", "max_words": 12},
        "checkpoints": {"every": 2},
        "log": {"every": 1},
    }  # fmt: skip


@pytest.fixture(scope="module")
def straight(values: dict[str, Any], base: Path) -> Path:
    out = base.parent / "straight"
    summary = run_stage(Recipe.from_mapping(values, source="test"), out=out, device="cpu")
    assert summary is not None
    assert summary["finished"]
    return out


def losses(out: Path, kind: str = "train") -> list[float]:
    return [line["loss"] for line in read_log(out / "log.jsonl") if line["kind"] == kind]


def test_the_loss_falls_and_only_the_adapter_is_saved(straight: Path) -> None:
    told = losses(straight)
    assert len(told) == STEPS
    assert sum(told[-4:]) < 0.8 * sum(told[:4])
    held_out = losses(straight, "validation")
    assert held_out[-1] < told[0]
    names = {path.name for path in (straight / "best").iterdir()}
    assert names == {"README.md", "adapter_config.json", "adapter_model.safetensors", "prompt.yaml", "recipe.yaml"}
    assert all("lora" in name for name in load_state(straight / "last")["objective"])
    targets = json.loads((straight / "best" / "adapter_config.json").read_text())["target_modules"]
    assert len(targets) > 2
    assert targets == sorted(targets)  # peft writes a set: the same run would end with other bytes each time


def test_killed_and_resumed_equals_the_straight_run(straight: Path, values: dict[str, Any], tmp_path: Path) -> None:
    recipe, out = tmp_path / "recipe.yaml", tmp_path / "killed"
    recipe.write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "spotchange", "train", str(recipe), "--out", str(out), "--device", "cpu"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 600
    while len(losses(out)) < 7:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    run_stage(Recipe.from_mapping(values, source="test"), out=out, resume=True, device="cpu")
    assert losses(out) == losses(straight)
    for folder in ("best", "last"):
        adapters = [(each / folder / "adapter_model.safetensors").read_bytes() for each in (straight, out)]
        assert adapters[0] == adapters[1], folder


def test_the_adapter_answers_by_its_folder(straight: Path, base: Path) -> None:
    pairs = [(Image.new("RGB", (72, 48), first), Image.new("RGB", (72, 48), "blue")) for first in ("red", "green")]
    answerer = build_answerer(
        f"vlm:{straight / 'best'}",
        LoadOptions(device="cpu", model_options={"no_cache": "true", "max_new_tokens": "40", "batch_size": "2"}),
    )
    assert "prompt plain.v1@" in answerer.card.architecture  # what it was trained to be asked, without being told
    of_run = build_answerer(f"vlm:{straight}", LoadOptions(device="cpu", model_options={"no_cache": "true"}))
    assert of_run.card.name == answerer.card.name == "straight"  # a run stands for its best checkpoint
    with pytest.raises(ModelError, match="is an adapter of a vision-language model") as caught:
        build_answerer(straight / "best")
    assert caught.value.hint == f"vlm:{straight / 'best'}"
    loaded = load_checkpoint(str(straight / "best"))
    coder = ChatCoder(loaded.processor, load_prompt("plain"), ends=[2], dtype=torch.float32)
    batch = coder.encode(pairs, ["x", "x"], [1, 1])
    with torch.inference_mode():
        ids = loaded.model.eval().generate(**batch.prompts(), max_new_tokens=40, do_sample=False)
    ids = ids[:, batch.prompt_tokens :]
    outcomes = answerer.answer([ImagePair.of(*pair) for pair in pairs], CaptionOptions())
    for outcome, row, text in zip(outcomes, ids.tolist(), coder.texts(ids), strict=True):
        if 2 in row and text:
            assert outcome.result.caption == text  # type: ignore[union-attr]
            assert outcome.result.source == "vlm"  # type: ignore[union-attr]
        else:
            assert isinstance(outcome, ReplyError)
    bare = load_checkpoint(str(base)).model
    difference = loaded.model(**batch.inputs).logits - bare(**batch.inputs).logits
    assert difference.abs().max() > 0.1  # it is the adapted model that was asked


def test_training_goes_on_from_an_adapter(straight: Path, values: dict[str, Any], base: Path, tmp_path: Path) -> None:
    further = {**values, "stage": {**values["stage"], "start_from": str(straight / "best"), "steps": 1}}
    prepare(Recipe.from_mapping(further, source="test"), out=tmp_path / "out", device="cpu", validate=False)
    other = {**further, "model": {**values["model"], "base": "scratch/llava-tiny"}}
    with pytest.raises(ConfigError, match="adapts"):
        prepare(Recipe.from_mapping(other, source="test"), out=tmp_path / "out", device="cpu", validate=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"stage": {"objective": {"kind": "caption"}}}, "need each other"),
        ({"augment": {"crop": 0.1}}, "not for vision-language models"),
        ({"model": {"bas": "x"}}, "unknown setting 'model.bas'"),
        ({"model": {"base": "x", "lora": {"rnk": 3}}}, "unknown setting 'model.lora.rnk', did you mean 'rank'"),
    ],
)
def test_wrong_recipes_are_one_line(values: dict[str, Any], change: dict[str, Any], said: str) -> None:
    merged = {**values, **change}
    if "stage" in change:
        merged["stage"] = {**values["stage"], **change["stage"]}
    with pytest.raises(ConfigError, match=said):
        Recipe.from_mapping(merged, source="test")


def test_modules_that_are_not_there_and_bases_that_are_not_there(values: dict[str, Any], tmp_path: Path) -> None:
    strange = {**values["model"], "lora": {"targets": ["no_such_module"]}}
    with pytest.raises(ConfigError, match=r"model\.lora\.targets"):
        prepare(Recipe.from_mapping({**values, "model": strange}, source="test"), out=tmp_path, device="cpu")
    missing = {**values["model"], "base": str(tmp_path)}
    with pytest.raises(ModelError, match="no safetensors"):
        prepare(Recipe.from_mapping({**values, "model": missing}, source="test"), out=tmp_path, device="cpu")
