"""What is published is what was tested: the wheel alone, outside the repository, with the core's dependencies only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
EXAMPLES = REPOSITORY / "src/spotchange/assets/examples"
PAIR = [str(EXAMPLES / f"1_an_object_gone_{side}.jpg") for side in ("before", "after")]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
LARGEST_WHEEL, LARGEST_INSTALLATION = 95_000_000, 500_000_000  # bytes

# Found by every Python that starts with this on its path: nothing reaches the network, not even to look up a name.
NO_NETWORK = """
import socket
connect = socket.socket.connect
def within_this_machine(self, address):
    if self.family != socket.AF_UNIX:
        raise OSError("the network is closed")
    return connect(self, address)
def refuse(*arguments, **more):
    raise OSError("the network is closed")
socket.socket.connect = within_this_machine
socket.getaddrinfo = refuse
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the tracked files, so that nothing left in the working tree can slip in."""
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True)
    if listed.returncode or not listed.stdout:
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("wheel")
    for name in listed.stdout.splitlines():
        if (REPOSITORY / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "source" / name).symlink_to(REPOSITORY / name)
    build = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(folder / "built"), str(folder / "source")]
    subprocess.run([*PIP, "--quiet", *build], check=True)
    (built,) = (folder / "built").glob("spotchange-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that holds the wheel and what it depends on, without any extra."""
    folder = tmp_path_factory.mktemp("light")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    constraints = ["-c", str(REPOSITORY / "constraints.txt")]
    installed = pip_for(python, "install", *constraints, str(wheel))
    if installed.returncode and os.environ.get("CI") != "true":
        pytest.skip("no package index to install the core's dependencies from")
    assert installed.returncode == 0, installed.stderr
    return python


def pip_for(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tests' own pip at work in another environment, which needs none."""
    return subprocess.run([*PIP, "--python", str(python), *arguments], capture_output=True, text=True)


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def run(python: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`spotchange ...` with a read-only home, without network, and without anything this process can import."""
    closed = home.parent / "closed"
    closed.mkdir(exist_ok=True)
    (closed / "sitecustomize.py").write_text(NO_NETWORK)
    home.mkdir(mode=0o555, exist_ok=True)
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("XDG", "HF_", "COV", "SPOTCHANGE", "PYTHON", "ORT_"))
    }
    kept.pop("CI", None)  # onnxruntime's telemetry is silent where this is set
    return subprocess.run(
        [str(python), "-m", "spotchange", *arguments],
        cwd=home.parent,
        env=kept | {"HOME": str(home), "PYTHONPATH": str(closed)},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_the_light_installation_captions_compares_and_scores_without_network(python: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    captioned = run(python, home, "caption", *PAIR, "--json")
    assert captioned.returncode == 0, captioned.stderr
    told = json.loads(captioned.stdout)
    assert told["changed"] is True
    assert told["source"] == "model"
    for folder, image in zip("ab", PAIR, strict=True):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "shot.jpg").write_bytes(Path(image).read_bytes())
    compared = run(python, home, "compare", "a", "b", "--fail-on-change")
    assert compared.returncode == 1, compared.stderr
    (tmp_path / "told.json").write_text(json.dumps({"a": told["caption"], "b": "no change"}))
    (tmp_path / "true.json").write_text(json.dumps({"a": ["the green sphere is missing"], "b": ["nothing changed"]}))
    scored = run(python, home, "score", "told.json", "true.json", "--json")
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["corpus"]["CIDEr-D"] >= 0
    assert list(home.iterdir()) == []


@pytest.mark.slow
def test_the_light_installation_has_no_torch_and_is_small(python: Path, wheel: Path) -> None:
    listed = pip_for(python, "list", "--format=json")
    assert listed.returncode == 0, listed.stderr
    names = {each["name"].lower() for each in json.loads(listed.stdout)}
    assert not names & {"torch", "transformers", "accelerate", "numba", "gradio", "onnx"}
    assert {"onnxruntime", "tokenizers", "opencv-python-headless"} <= names
    assert wheel.stat().st_size <= LARGEST_WHEEL
    assert size_of(python.parent.parent) <= LARGEST_INSTALLATION


@pytest.mark.slow
def test_a_missing_extra_is_one_line(python: Path, tmp_path: Path) -> None:
    refused = run(python, tmp_path / "home", "train", "smoke/adapt", "--out", str(tmp_path / "run"))
    assert refused.returncode == 2
    assert (
        refused.stderr.strip() == "error: `spotchange train` needs the extra 'train': pip install 'spotchange[train]'"
    )
