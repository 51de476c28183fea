"""A disk that takes no more, in the middle of the two verbs that write most: one line, exit code 2, old files whole.

The limit on the size of a file makes the machine refuse real writes of real libraries, without a disk to fill.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spotchange.cli import main as command_line
from spotchange.config.recipes import RECIPES

RECIPE_CHANGES = (
    "model={preset: spotchange-tiny, vision: {image_size: [24, 36], width: 16, layers: 2, n_inter: 1,"
    " output_width: 16}, text: {width: 16, layers: 1, context: 24}, captioner: {width: 16}}",
    "stage.pairs_per_step=4",
    "stage.steps=4",
    "stage.ema=null",
    "validation.every=4",
    "validation.pairs=4",
    "checkpoints.every=2",
)

Call = Callable[..., tuple[int, str]]


@contextmanager
def full_disk(largest: int = 8192) -> Iterator[None]:
    """No file can grow beyond `largest` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """`spotchange ARGUMENTS`: exit code and stderr."""

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["spotchange", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return run


def assert_refused(code: int, err: str) -> None:
    assert code == 2, err
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "cannot write" in errors[0]
    assert "Traceback" not in err


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_train_keeps_its_last_checkpoint_and_writes_no_half_one(call: Call, tmp_path: Path) -> None:
    out, changes = tmp_path / "run", [part for each in RECIPE_CHANGES for part in ("--set", each)]
    command = ["train", RECIPES / "smoke" / "adapt.yaml", *changes, "--device", "cpu"]
    code, err = call(*command, "--out", out, "--until", 2)
    assert code == 0, err
    kept = content(out / "last")
    # Weights go through safetensors, the optimizer through torch: first where neither fits, then where the weights do.
    weights, state = len(kept["model.safetensors"]), len(kept["training_state.pt"])
    assert weights < state
    for folder, options, largest in ((tmp_path / "new", (), 8192), (out, ("--resume",), (weights + state) // 2)):
        with full_disk(largest):
            refused = call(*command, "--out", folder, *options)
        assert_refused(*refused)
        assert not [path for path in folder.iterdir() if ".new-" in path.name]
    assert not (tmp_path / "new" / "last").exists()
    assert content(out / "last") == kept


@pytest.mark.parametrize("options", [[], ["--to", "onnx"]], ids=["safetensors", "onnx"])
def test_export_leaves_no_half_model(call: Call, tmp_path: Path, options: list[str]) -> None:
    out = tmp_path / "exported"
    with full_disk(200_000):
        refused = call("models", "export", "bundled", "--out", out, *options)
    assert_refused(*refused)
    assert list(tmp_path.iterdir()) == []


def test_a_replaced_export_stays_whole(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "exported"
    assert call("models", "export", "bundled", "--out", out)[0] == 0
    kept = content(out)
    with full_disk(200_000):
        refused = call("models", "export", "bundled", "--out", out, "--force")
    assert_refused(*refused)
    assert content(out) == kept
    assert list(tmp_path.iterdir()) == [out]
