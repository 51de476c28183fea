"""The front door shows what it says, and opens fast."""

from __future__ import annotations

import json
import subprocess
import sys

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
        "import contextlib, runpy\nsys.argv = ['spotchange', '--help']\n"
        "with contextlib.suppress(SystemExit):\n    runpy.run_module('spotchange', run_name='__main__')",
    ],
    ids=["import", "metrics", "help"],
)
def test_light_paths_load_nothing_heavy(statement: str) -> None:
    assert loaded_after(statement) == set()


def test_a_cold_caption_does_not_import_transformers() -> None:
    assert "transformers" not in loaded_after("import spotchange\nspotchange.load")
