"""What a new user reads first: help that says all there is to say, in eighty columns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from spotchange.cli.main import app

NARROW = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "80"}


def every_command() -> list[list[str]]:
    found: list[list[str]] = []

    def walk(command: Any, path: list[str]) -> None:
        found.append(path)
        for name in getattr(command, "commands", {}):
            walk(command.commands[name], [*path, name])

    walk(get_command(app), [])
    return found


@pytest.mark.parametrize("path", every_command(), ids=lambda path: " ".join(path) or "spotchange")
def test_help_by_either_name_in_eighty_columns_without_types_of_flags(path: list[str]) -> None:
    shown = [CliRunner().invoke(app, [*path, name], env=NARROW) for name in ("-h", "--help")]
    assert shown[0].exit_code == 0
    assert shown[0].output == shown[1].output
    assert "<bool>" not in shown[0].output
    assert max(map(len, shown[0].output.splitlines())) <= 80
    assert "…" not in shown[0].output  # nothing is cut off


def test_paragraphs_fill_their_lines() -> None:
    shown = CliRunner().invoke(app, ["models", "export", "--help"], env=NARROW | {"COLUMNS": "2000"})
    told = [line for line in shown.output.splitlines() if "half precision" in line]
    assert len(told) == 1
    assert "which load as fp32 wherever torch is used" in told[0]


def test_brackets_stay() -> None:
    shown = CliRunner().invoke(app, ["score", "--help"], env=NARROW | {"COLUMNS": "200"})
    assert "{id: [text]}" in shown.output


def test_the_keys_of_a_manifest_are_named() -> None:
    shown = CliRunner().invoke(app, ["caption", "--help"], env=NARROW | {"COLUMNS": "300"})
    assert "id, before_file_name and after_file_name" in shown.output


@pytest.mark.parametrize("verb", ["import", "attention", "align"])
def test_every_verb_of_models_has_json_and_a_device(verb: str) -> None:
    shown = CliRunner().invoke(app, ["models", verb, "--help"], env=NARROW | {"COLUMNS": "200"})
    assert "--json" in shown.output
    assert "--device" in shown.output


def test_the_table_of_models_fits() -> None:
    shown = CliRunner().invoke(app, ["models", "list"], env=NARROW)
    assert max(map(len, shown.output.splitlines())) <= 80


def test_the_container_file_uses_the_constraints_and_is_linted() -> None:
    root = Path(__file__).parents[2]
    installs = [line for line in (root / "Containerfile").read_text().splitlines() if "pip install" in line]
    assert installs
    assert all("-c constraints.txt" in line for line in installs)
    assert "hadolint Containerfile" in (root / "Makefile").read_text()
    assert os.path.getsize(root / "constraints.txt") > 0
