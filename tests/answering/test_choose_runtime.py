"""auto, onnx or torch: chosen by what is there, without importing torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spotchange.answering.runtimes import choose as choose_runtime
from spotchange.answering.runtimes.choose import chosen_runtime
from spotchange.errors import InputError, ModelError
from spotchange.models.export.layout import MANIFEST


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that says it was exported."""
    (tmp_path / MANIFEST).write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("runtime", "device", "cuda", "expected"),
    [
        ("auto", "auto", False, "onnx"),
        ("auto", "auto", True, "torch"),
        ("auto", "cpu", True, "onnx"),
        ("auto", "cuda", True, "torch"),
        ("auto", "cuda:1", False, "torch"),  # torch then says that there is none
        ("onnx", "auto", True, "onnx"),
        ("torch", "auto", False, "torch"),
        ("torch", "cpu", False, "torch"),
    ],
)
def test_the_choice(
    folder: Path, runtime: str, device: str, cuda: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose_runtime, "cuda_is_there", lambda: cuda)
    assert chosen_runtime(folder, runtime=runtime, device=device) == expected


def test_without_an_export_torch_computes_and_onnx_says_how_to_get_one(tmp_path: Path) -> None:
    assert chosen_runtime(tmp_path, runtime="auto", device="cpu") == "torch"
    with pytest.raises(ModelError, match="has no ONNX export") as caught:
        chosen_runtime(tmp_path, runtime="onnx", device="auto")
    assert caught.value.hint == f"spotchange models export {tmp_path} --to onnx"


@pytest.mark.parametrize(
    ("runtime", "device", "message"),
    [("tensorrt", "auto", "unknown runtime"), ("auto", "gpu", "unknown device"), ("onnx", "cuda", "on the CPU")],
)
def test_what_cannot_be_is_refused(folder: Path, runtime: str, device: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        chosen_runtime(folder, runtime=runtime, device=device)


def test_asking_for_a_gpu_imports_no_torch() -> None:
    program = (
        "import sys; from spotchange.answering.runtimes.choose import cuda_is_there; cuda_is_there();"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
