"""One writer a folder: the second is told who the first is, and a killed one leaves nothing in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spotchange.errors import InputError
from spotchange.locks import one_writer, only_one_process

HOLD = """
import sys, time
from pathlib import Path
from spotchange.locks import one_writer
with one_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    target = tmp_path / "set" / "train"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(target)], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=rf"train is being written by process {first.pid} on"), one_writer(target):
            pass
        first.send_signal(signal.SIGKILL)
        first.wait()
    with one_writer(target):  # a killed process holds nothing
        pass
    assert list(tmp_path.rglob(".*")) == []


def test_within_one_process_too(tmp_path: Path) -> None:
    with one_writer(tmp_path / "a"):
        with pytest.raises(InputError, match=f"process {os.getpid()}"), one_writer(tmp_path / "a"):
            pass
        with one_writer(tmp_path / "b"):
            pass
    with one_writer(tmp_path / "a"):
        pass


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot write"), one_writer(tmp_path / "file" / "below"):
        pass


def test_waiting_for_the_other(tmp_path: Path) -> None:
    with only_one_process(tmp_path / ".a.lock"):
        pass
    with only_one_process(tmp_path / ".a.lock"):
        pass
    assert not (tmp_path / ".a.lock").exists()


def test_nothing_here_needs_posix_to_be_imported() -> None:
    script = "import sys; sys.modules['fcntl'] = None; import spotchange.cli.main, spotchange.locks"
    subprocess.run([sys.executable, "-c", script], check=True)
