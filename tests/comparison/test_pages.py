"""Pages edited in a real browser: every edit that changes a pixel is caught, a reload is not, and the kind is right."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from spotchange.comparison import ComparisonOptions, compare

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.slow]

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# (kind of edit, page, seed, kinds of finding that are right)
EDITS = (
    ("text", "table-0", 5, {"text"}),
    ("text colour", "pricing-0", 3, {"recoloured"}),
    ("ground colour", "dashboard-2", 4, {"recoloured"}),
    ("hidden", "shop-0", 9, {"disappeared"}),
    ("position", "form-1", 7, {"moved"}),
    ("image", "article-0", 2, {"replaced"}),
    ("inserted block", "article-1", 6, {"inserted"}),
    ("z-order", "pile-0", 8, {"replaced", "recoloured"}),
)


def module(name: str) -> ModuleType:
    """A benchmark's module, which is not installed."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def editor() -> ModuleType:
    return module("page_edits")


@pytest.fixture(scope="module")
def browser_page(chromium: str, editor: ModuleType) -> Iterator[Any]:
    with playwright.sync_playwright() as made:
        browser = made.chromium.launch(executable_path=chromium, args=editor.ARGUMENTS)
        yield browser.new_page(viewport=editor.VIEW)
        browser.close()


@pytest.fixture(scope="module")
def addresses(editor: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return dict(editor.pages(None, tmp_path_factory.mktemp("pages"), documents_each=0))


@pytest.mark.parametrize(("kind", "name", "seed", "right"), EDITS, ids=[edit[0] for edit in EDITS])
def test_an_edit_is_caught_and_named(
    kind: str,
    name: str,
    seed: int,
    right: set[str],
    browser_page: Any,
    editor: ModuleType,
    addresses: dict[str, str],
    tmp_path: Path,
) -> None:
    record = editor.make(browser_page, addresses[name], kind, seed, tmp_path, "case", full=False)
    assert record is not None
    result = compare(tmp_path / "case_before.png", tmp_path / "case_after.png", ComparisonOptions(read_text=False))
    assert result.changed
    assert right & {finding.kind for finding in result.findings}, result.findings


def test_a_reload_is_identical(
    browser_page: Any, editor: ModuleType, addresses: dict[str, str], tmp_path: Path
) -> None:
    for name in ("dashboard-0", "form-2", "article-1"):
        for number in (1, 2):
            browser_page.goto(addresses[name], wait_until="load")
            editor.shoot(browser_page, tmp_path / f"{number}.png")
        assert compare(tmp_path / "1.png", tmp_path / "2.png").identical
