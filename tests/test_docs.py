"""Documentation that can be followed: links lead somewhere, commands exist, examples parse."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from spotchange.cli.main import app

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = sorted([REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").rglob("*.md")])
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def name(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [first or second for first, second in _LINK.findall(page.read_text(encoding="utf-8"))]
    local = [target.partition("#")[0] for target in targets if not target.startswith(("http", "#", "mailto"))]
    assert [target for target in local if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_blocks_parse_and_name_verbs_that_exist(page: Path) -> None:
    verbs = set(get_command(app).commands)  # type: ignore[attr-defined]
    for language, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            ast.parse(block)
        elif language in ("yaml", "yml"):
            yaml.safe_load(block)
        else:
            for line in block.replace("\\\n", " ").splitlines():
                command = line.strip().removeprefix("$ ")
                words = shlex.split(command, comments=True) if command.startswith("spotchange ") else []
                if words[:1] == ["spotchange"] and len(words) > 1 and words[1].isalpha():
                    assert words[1] in verbs, f"{name(page)}: {line}"


def test_the_index_leads_to_every_page() -> None:
    index = (REPOSITORY / "docs/index.md").read_text(encoding="utf-8")
    log = (REPOSITORY / "docs/experiments.md").read_text(encoding="utf-8")
    for page in (REPOSITORY / "docs").glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index, page.name
    for page in (REPOSITORY / "docs/experiments").glob("*.md"):
        assert f"(experiments/{page.name})" in log, page.name


def test_decisions_are_numbered_without_holes() -> None:
    numbers = sorted(int(path.name[:4]) for path in (REPOSITORY / "docs/decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))


def test_tests_that_security_names_are_there() -> None:
    page = (REPOSITORY / "docs/security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(?:[a-z_]+/)*(test_\w+\.py)`", page)
    there = {path.name for path in (REPOSITORY / "tests").rglob("test_*.py")}
    assert named
    assert set(named) <= there
