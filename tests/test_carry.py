"""The shipped weights leave the tree for a GPU session and come back, and no commit in between deletes them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHIPPED = ("everyday-recognisers", "everyday-library", "spotchange-small", "spotchange-everyday")


def git(*arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *who, *arguments], check=True, capture_output=True, text=True).stdout


def carry(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "runs/carry.sh", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("git") is None or shutil.which("bash") is None, reason="git and bash do it")
def test_weights_leave_and_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = [Path("src/spotchange/assets") / name / "sub" / f"w.{end}" for name in SHIPPED for end in ("bin", "txt")]
    models = ("spotchange-small", "spotchange-everyday")
    weights = ("config.json", "model.safetensors")
    files += [Path(f"src/spotchange/assets/{model}/{name}") for model in models for name in weights]
    files += [Path("weights/scene-clip/model.safetensors"), Path("README.md"), Path(".gitignore")]
    for number, file in enumerate(files):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}" * 100)
    Path(".gitignore").write_text("build/\n")
    Path("runs").mkdir()
    shutil.copy(ROOT / "runs" / "carry.sh", "runs")
    Path("build/wheels312").mkdir(parents=True)
    Path("build/wheels312/pure.zip").write_bytes(bytes(3 * 2**20))  # made already
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "all")
    before = {file: file.read_bytes() for file in files}

    done = carry("out", "weights/scene-clip")
    assert done.returncode == 0, done.stderr
    assert "3.0 MiB would travel" in done.stdout
    assert [file.name for file in files if file.exists()] == ["README.md", ".gitignore"]
    assert all(Path(f"build/{model}/{name}").exists() for model in models for name in weights)
    assert git("status", "--porcelain") == ""
    Path("README.md").write_text("results")
    git("add", "-A")
    git("commit", "-qam", "results first")
    assert git("show", "--name-status", "--format=", "HEAD").split() == ["M", "README.md"]

    assert carry("out").returncode == 0  # again: nothing more to move
    Path("build/large").write_bytes(bytes(64 * 2**20))
    assert carry("size", "build/large").returncode == 1
    Path("build/many").mkdir()
    for number in range(1024):  # empty, but as they travel each has a header
        Path(f"build/many/{number}").touch()
    assert "1.0 MiB would travel" in carry("size", "build/many").stdout
    done = carry("back")
    assert (done.returncode, done.stdout) == (0, "")
    before[Path("README.md")] = b"results"
    assert {file: file.read_bytes() for file in files} == before
    assert git("status", "--porcelain") == ""
