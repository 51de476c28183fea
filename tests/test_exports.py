"""The public interface shows what it says, and opens fast."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import spotchange

HEAVY = {"torch", "transformers", "numba", "gradio", "fastapi", "datasets"}


def loaded_after(statement: str) -> set[str]:
    """Heavy packages that a statement loads in a fresh interpreter."""
    program = f"import sys, json\n{statement}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return HEAVY & set(json.loads(done.stderr.strip().splitlines()[-1]))


def test_all_is_what_is_visible() -> None:
    visible = {name for name in dir(spotchange) if not name.startswith("_")}
    assert visible == {name for name in spotchange.__all__ if not name.startswith("_")}
    for name in spotchange.__all__:
        assert getattr(spotchange, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = spotchange.nothing


@pytest.mark.parametrize(
    "statement",
    [
        "import spotchange",
        "import spotchange.metrics",
        "import spotchange.language",
        "import spotchange.comparison",
        "import contextlib, runpy\nsys.argv = ['spotchange', '--help']\n"
        "with contextlib.suppress(SystemExit):\n    runpy.run_module('spotchange', run_name='__main__')",
    ],
    ids=["import", "metrics", "language", "comparison", "help"],
)
def test_light_paths_load_nothing_heavy(statement: str) -> None:
    assert loaded_after(statement) == set()


def test_a_cold_caption_does_not_import_transformers() -> None:
    assert "transformers" not in loaded_after("import spotchange\nspotchange.load")


PUBLIC = ("answering", "comparison", "data", "evaluation", "language", "metrics", "regression")


def test_what_a_package_exports_is_imported_from_the_package() -> None:
    """Who needs an exported name asks the package for it: what lies inside may move."""
    root = Path(spotchange.__file__).parent
    exported = {name: set(importlib.import_module(f"spotchange.{name}").__all__) for name in PUBLIC}
    past = []
    for path in root.rglob("*.py"):
        room = path.relative_to(root).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("spotchange."):
                continue
            _, package, *inside = str(node.module).split(".")
            if inside and package in exported and package != room:
                known = [alias.name for alias in node.names if alias.name in exported[package]]
                past += [f"{path.relative_to(root)}:{node.lineno}: {name} from spotchange.{package}" for name in known]
    assert past == []
