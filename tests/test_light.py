"""What works with the core's dependencies alone: no torch, no numba, no transformers; what an extra must not bring."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from PIL import Image

EXAMPLES = Path(__file__).resolve().parent.parent / "src/spotchange/assets/examples"
BEFORE, AFTER = EXAMPLES / "1_an_object_gone_before.jpg", EXAMPLES / "1_an_object_gone_after.jpg"


def spotchange(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = Path(__file__).with_name("light.py")
    return subprocess.run(
        [sys.executable, str(program), *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300
    )


def done(*arguments: object, cwd: Path) -> str:
    finished = spotchange(*arguments, cwd=cwd)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_caption(tmp_path: Path) -> None:
    told = json.loads(done("caption", BEFORE, AFTER, "--json", "--heatmap", "heat.png", cwd=tmp_path))
    assert told["changed"] is True
    assert told["change_type"] == "drop"
    assert told["source"] == "model"
    assert told["familiarity"] > 0.01
    assert told["regions"]
    assert (tmp_path / "heat.png").is_file()


def test_caption_from_pixels_and_of_identical_images(tmp_path: Path) -> None:
    assert json.loads(done("caption", BEFORE, BEFORE, "--json", cwd=tmp_path))["changed"] is False
    assert json.loads(done("caption", BEFORE, AFTER, "--model", "pixels", "--json", cwd=tmp_path))["changed"] is True


def test_a_folder_of_everyday_photos(tmp_path: Path) -> None:
    told = json.loads(
        done("caption", BEFORE, AFTER, "--model", EXAMPLES.parent / "spotchange-everyday", "--json", cwd=tmp_path)
    )
    assert told["model"] == "spotchange-everyday"
    assert told["source"] == "model"


def test_compare(tmp_path: Path) -> None:
    for folder, image in (("a", BEFORE), ("b", AFTER)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "shot.jpg").write_bytes(image.read_bytes())
    finished = spotchange("compare", "a", "b", "--fail-on-change", "--report", "report.html", cwd=tmp_path)
    assert finished.returncode == 1, finished.stderr
    assert "shot.jpg" in finished.stdout
    assert (tmp_path / "report.html").is_file()
    worded = ("compare", "a", "b", "--model", "bundled", "--runtime")
    assert "green rubber sphere" in done(*worded, "onnx", cwd=tmp_path)
    assert spotchange(*worded, "torch", cwd=tmp_path).returncode == 2


def test_score(tmp_path: Path) -> None:
    (tmp_path / "told.json").write_text(json.dumps({"a": "the cube moved", "b": "nothing changed"}))
    (tmp_path / "true.json").write_text(json.dumps({"a": ["the red cube moved"], "b": ["no change was made"]}))
    finished = spotchange("score", "told.json", "true.json", "--json", cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["corpus"]["ROUGE-L"] > 0
    assert "METEOR is left out" in finished.stderr
    assert "pip install 'spotchange[metrics]'" in finished.stderr
    asked = spotchange("score", "told.json", "true.json", "--meteor", cwd=tmp_path)
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr == "error: METEOR needs the extra 'metrics': pip install 'spotchange[metrics]'\n"


def test_data_check_and_preview(tmp_path: Path) -> None:
    split = tmp_path / "set" / "train"
    split.mkdir(parents=True)
    for name in ("before.png", "after.png"):
        Image.new("RGB", (48, 32), "gray" if name == "before.png" else "red").save(split / name)
    row = {"id": "one", "before_file_name": "before.png", "after_file_name": "after.png", "captions": ["it is red"]}
    (split / "metadata.jsonl").write_text(json.dumps(row) + "\n")
    done("data", "check", "set", cwd=tmp_path)
    done("data", "preview", "set", "--split", "train", "--out", "sheet.png", cwd=tmp_path)
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width > 48


@pytest.mark.parametrize("arguments", [("config", "list"), ("config", "show", "smoke/adapt"), ("models", "list")])
def test_what_only_prints(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert done(*arguments, cwd=tmp_path).strip()


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("train", "smoke/adapt", "--out", "run"), "train"),
        (("generate", "--pairs", "2", "--out", "set"), "train"),
        (("models", "export", "bundled", "--out", "copy"), "train"),
        (("models", "export", "bundled", "--to", "onnx", "--out", "copy"), "train"),
        (("models", "show"), "train"),
        (("models", "import", "weights.bin", "--out", "copy"), "train"),
        (("models", "attention", BEFORE, AFTER, "--out", "map.png"), "train"),
        (("ablate", "smoke", "--out", "run"), "train"),
        (("rank", BEFORE, AFTER, "--captions", __file__), "train"),
        (("data", "features", "idc_pcl/scenes-pretrain", "--scenes", "8", "--out", "cells"), "train"),
        (("caption", BEFORE, AFTER, "--runtime", "torch"), "train"),
        (("caption", BEFORE, AFTER, "--model", "vlm:folder"), "vlm"),
        (("caption", BEFORE, AFTER, "--model", "openai:http://127.0.0.1:9/v1#model"), "vlm"),
        (("serve",), "serve"),
    ],
)
def test_a_verb_without_its_extra_says_so_in_one_line(
    tmp_path: Path, arguments: tuple[object, ...], extra: str
) -> None:
    finished = spotchange(*arguments, cwd=tmp_path)
    assert finished.returncode == 2
    assert finished.stdout == ""
    (line,) = finished.stderr.strip().splitlines()
    assert line.endswith(f"needs the extra '{extra}': pip install 'spotchange[{extra}]'")
    assert list(tmp_path.iterdir()) == []


def test_models_are_pulled_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    finished = spotchange("models", "pull", "someone/model", "--out", "theirs", cwd=tmp_path)
    assert finished.returncode == 2
    assert "someone/model is not in its cache" in finished.stderr


def test_a_model_without_an_export_needs_torch_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    finished = spotchange("caption", BEFORE, AFTER, "--model", "model", "--runtime", "onnx", cwd=tmp_path)
    assert finished.returncode == 2
    assert "has no ONNX export" in finished.stderr
    assert "models export model --to onnx" in finished.stderr


def test_the_extra_brings_no_torchvision() -> None:
    """Everything that `pip install spotchange[vlm]` installs, as the installed packages say it themselves."""
    brought: set[str] = set()
    open_ends = [Requirement("spotchange[vlm]")]
    while open_ends:
        wanted = open_ends.pop()
        for text in requires(wanted.name) or ():
            found = Requirement(text)
            extras = wanted.extras or {""}
            if found.marker is not None and not any(found.marker.evaluate({"extra": each}) for each in extras):
                continue
            if str(found) not in brought:
                brought.add(str(found))
                with suppress(PackageNotFoundError):  # of another system
                    requires(found.name)
                    open_ends.append(found)
    names = {Requirement(each).name for each in brought}
    assert {"torch", "transformers", "peft", "httpx", "num2words"} <= names
    assert not names & {"torchvision", "timm", "open_clip_torch"}
