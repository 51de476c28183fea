"""The command line's manners: help everywhere, one-line errors, exit codes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from spotchange.cli.main import COMMANDS, app

VERBS = ["caption", "compare", "generate", "train", "ablate", "evaluate", "score", "serve", "data", "models", "config"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "spotchange", *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_that_ends_with_an_example(verb: str) -> None:
    shown = CliRunner().invoke(app, [verb, "--help"], env={"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"})
    assert shown.exit_code == 0
    last = re.sub(r"\s+", " ", shown.output.strip().splitlines()[-1])
    assert f"Example: spotchange {verb}" in last


def test_every_result_can_be_json() -> None:
    for command in COMMANDS:
        if command.__name__ != "serve":
            shown = CliRunner().invoke(app, [command.__name__, "--help"], env={"NO_COLOR": "1", "COLUMNS": "200"})
            assert "--json" in shown.output, command.__name__


def test_version_and_unknown_verb() -> None:
    assert run("--version").stdout.startswith("spotchange ")
    unknown = run("captoin")
    assert unknown.returncode == 2
    assert "Traceback" not in unknown.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["caption", "no-such-before.png", "no-such-after.png"],
        ["caption", "one.png"],
        ["caption", "a.png", "b.png", "--ignore", "1,2,3"],
        ["caption", "a.png", "b.png", "--model", "no-such-folder"],
        ["config", "check", "no-such.yaml"],
        ["data", "check", "no-such-folder"],
        ["score", "no.json", "no.json"],
        ["evaluate", "no-such-model", "no-such-data"],
        ["train", "no-such.yaml"],
        ["generate", "--pairs", "3", "--out", "x"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], tmp_path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spotchange", *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert lines[0].startswith("error: ")
    assert len(lines) <= 2
    assert "Traceback" not in done.stderr


def test_colour_is_off_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in run("caption", "no.png", "no.png").stderr
