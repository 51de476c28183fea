"""The pytest plugin: missing, equal and changed baselines, and writing them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

pytest_plugins = ["pytester"]

TEST = """
from PIL import Image

def test_page(assert_unchanged):
    image = Image.new("RGB", (40, 30), "white")
    image.putpixel((5, 5), {color})
    assert_unchanged(image, "home.png", max_diff_pixels={allowed})
"""


def run(pytester: pytest.Pytester, color: tuple[int, int, int], *arguments: str, allowed: int = 0) -> pytest.RunResult:
    pytester.makepyfile(TEST.format(color=color, allowed=allowed))
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


def test_a_baseline_is_written_then_compared_with(pytester: pytest.Pytester) -> None:
    missing = run(pytester, (0, 0, 0))
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*there is no baseline*--spotchange-update writes it*"])
    run(pytester, (0, 0, 0), "--spotchange-update").assert_outcomes(passed=1)
    assert Image.open(pytester.path / "screenshots/home.png").getpixel((5, 5)) == (0, 0, 0)
    run(pytester, (0, 0, 0)).assert_outcomes(passed=1)
    changed = run(pytester, (200, 0, 0))
    changed.assert_outcomes(failed=1)
    changed.stdout.fnmatch_lines(["*home.png changed:*1 pixels*"])
    assert {path.name for path in (pytester.path / "test-results/spotchange").iterdir()} == {
        "home-before.png",
        "home-after.png",
        "home-diff.png",
    }
    run(pytester, (200, 0, 0), allowed=1).assert_outcomes(passed=1)
    run(pytester, (200, 0, 0), "--spotchange-update").assert_outcomes(passed=1)
    run(pytester, (200, 0, 0)).assert_outcomes(passed=1)


def test_a_name_cannot_leave_the_folder(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_page(assert_unchanged):\n    assert_unchanged(b'', '../outside.png')\n")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    assert not Path(pytester.path.parent / "outside.png").exists()
