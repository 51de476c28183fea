"""The README's commands run, in order, in one folder; what is not run here is listed with its reason."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
# First words of commands that a test cannot or must not run, and why.
SKIPPED = {
    "git clone": "needs the network",
    "cd ": "only changes folder",
    "make ": "runs this test suite or sets up an environment",
    "pip install": "needs the network",
    "python -m pip": "needs the network",
    "spotchange serve": "runs until stopped; the server has its own tests",
    "spotchange train clip4idc": "needs CLIP weights or a GPU",
    "spotchange train small": "needs a GPU",
    "spotchange ablate": "needs a GPU",
    "spotchange data import": "needs the original data set",
    "python benchmarks": "timings have their own place",
    "torchrun": "needs several GPUs",
    "curl": "needs the server above",
}


def commands() -> list[str]:
    """Lines of the README's `console` blocks that start with `$`."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    return [
        line[2:].split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.startswith("$ ")
    ]


def reason_to_skip(command: str) -> str | None:
    return next((reason for start, reason in SKIPPED.items() if command.startswith(start)), None)


@pytest.mark.slow
def test_readme_commands_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(commands()) >= 8
    for link in ("src", "docs"):
        (tmp_path / link).symlink_to(REPOSITORY / link)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands():
        reason = reason_to_skip(command)
        if reason:
            with capsys.disabled():
                print(f"\n  README, not run: {shlex.quote(command)} ({reason})", end="")
            continue
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_readme_links_lead_somewhere() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    targets = [t.split("#")[0] for t in re.findall(r"\]\(([^)]+)\)", text) if not t.startswith(("http", "#"))]
    missing = [target for target in targets if not (REPOSITORY / target).exists()]
    assert missing == []
