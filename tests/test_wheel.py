"""What is published is what was tested: the wheel alone, outside the repository, captions a pair."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
EXAMPLE = REPOSITORY / "src/spotchange/assets/examples"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


@pytest.mark.slow
def test_the_wheel_captions_a_pair_with_a_read_only_home(tmp_path: Path) -> None:
    source = tmp_path / "source"
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True)
    if listed.returncode or not listed.stdout:
        pytest.skip("not a git checkout")
    # Built from a copy of the tracked files, so that nothing left in the working tree can slip in.
    for name in listed.stdout.splitlines():
        if (REPOSITORY / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).symlink_to(REPOSITORY / name)
    build = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path / "wheels"), str(source)]
    subprocess.run([*PIP, *build], check=True)
    (wheel,) = (tmp_path / "wheels").glob("spotchange-*.whl")
    subprocess.run([*PIP, "install", "--no-deps", "--target", str(tmp_path / "site"), str(wheel)], check=True)
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("XDG", "HF_", "COV", "SPOTCHANGE"))}
    environment |= {"HOME": str(home), "PYTHONPATH": str(tmp_path / "site")}
    program = (
        "import spotchange, sys; sys.stderr.write(spotchange.__file__); from spotchange.cli.main import main; main()"
    )
    pair = [str(EXAMPLE / "1_an_object_gone_before.jpg"), str(EXAMPLE / "1_an_object_gone_after.jpg")]
    done = subprocess.run(
        [sys.executable, "-c", program, "caption", *pair], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "site") in done.stderr
    assert done.stdout.strip()
    assert list(home.iterdir()) == []
