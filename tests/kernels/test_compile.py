"""Kept code computes what new code computes, and a kept file that is damaged is only made anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spotchange.cli.output import COMPILING

LOOP = """
import sys
from spotchange.kernels.compile import cached_loop, announce_compilation

@cached_loop
def add(a, b):
    return a + b

with announce_compilation(lambda: print("compiling", file=sys.stderr)):
    print(add(1, 2), add(3, 4))
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def has_cuda() -> bool:
    from numba import cuda

    return bool(cuda.is_available())


@pytest.mark.slow
@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not has_cuda(), reason="no GPU")])],
)
def test_the_first_run_writes_the_same_bytes_as_the_second(tmp_path: Path, device: str) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": "200"}
    command = [sys.executable, "-m", "spotchange", "generate", "--pairs", "4", "--seed", "4", "--device", device]
    said = []
    for name in ("cold", "warm"):
        done = subprocess.run(
            [*command, "--out", str(tmp_path / name)], env=environment, capture_output=True, text=True, check=True
        )
        said.append(done.stderr.count(COMPILING))
    assert contents(tmp_path / "cold") == contents(tmp_path / "warm")
    assert said == [1, 0]


def test_where_no_code_can_be_kept_every_run_compiles(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a folder")
    for _ in range(2):
        assert "compiling" in run_loop(tmp_path).stderr


def test_every_loop_of_the_renderer_keeps_its_code() -> None:
    from spotchange.scenes.rendering import cpu

    loops = [value for value in vars(cpu).values() if hasattr(value, "py_func")]
    kept = [loop for loop in loops if type(getattr(loop, "_cache", None)).__name__ == "_ForgivingCache"]
    assert len(kept) >= 3


def run_loop(folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "loop.py"
    if not script.exists():
        script.write_text(LOOP)
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "7"]
    return done


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "gone", "folder"])
def test_damaged_kept_code_is_made_anew(tmp_path: Path, damage: str) -> None:
    assert "compiling" in run_loop(tmp_path).stderr
    assert run_loop(tmp_path).stderr == ""
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(kept) == 2
    for path in kept:
        content = path.read_bytes()
        path.unlink()
        if damage == "folder":
            path.mkdir()
        elif damage != "gone":
            changed = {"cut": content[: len(content) // 2], "garbage": b"\x80\x04garbage" * 99, "empty": b""}
            path.write_bytes(changed[damage])
    again = run_loop(tmp_path)
    assert "compiling" in again.stderr
    assert "Traceback" not in again.stderr
    if damage != "folder":
        assert run_loop(tmp_path).stderr == ""
