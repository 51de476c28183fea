"""The examples of docs/compare.md do what the page says: the Playwright test and the steps of the CI job."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from spotchange.cli.main import app

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"

# What pytest-playwright gives as `page`, with a server that answers from memory.
CONFTEST = """
import pytest
from playwright.sync_api import sync_playwright

@pytest.fixture
def page():
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path={chromium!r}, args=["--no-sandbox"])
        page = browser.new_page(viewport={{"width": 320, "height": 200}})
        page.route("**/*", lambda route: route.fulfill(content_type="text/html", body="<h1>{price}</h1>"))
        yield page
        browser.close()
"""


def example(language: str) -> str:
    """The page's block of code in a language."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8").split("## pytest")[1], re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.browser
def test_the_playwright_example(pytester: pytest.Pytester, chromium: str) -> None:
    pytest.importorskip("playwright.sync_api")
    pytester.makepyfile(example("python"))

    def run(price: str, *arguments: str) -> pytest.RunResult:
        (pytester.path / "conftest.py").write_text(CONFTEST.format(chromium=chromium, price=price))
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    run("$19.99", "--spotchange-update").assert_outcomes(passed=1)
    run("$19.99").assert_outcomes(passed=1)
    run("$24.99").assert_outcomes(failed=1)


def test_the_steps_of_the_ci_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = yaml.safe_load(example("yaml"))
    (command,) = [step["run"] for step in steps if step.get("run", "").startswith("spotchange ")]
    arguments = shlex.split(command.replace("$GITHUB_STEP_SUMMARY", "summary.md"))[1:]
    monkeypatch.chdir(tmp_path)
    for folder in ("baseline", "shots"):
        (tmp_path / folder).mkdir()
        Image.new("RGB", (40, 30), "white").save(tmp_path / folder / "home.png")
    assert CliRunner().invoke(app, arguments).exit_code == 0
    Image.new("RGB", (40, 30), "red").save(tmp_path / "shots" / "home.png")
    assert CliRunner().invoke(app, arguments).exit_code == 1
    upload = next(step for step in steps if "uses" in step)
    assert {"report.html", "junit.xml"} <= {each.name for each in (tmp_path / upload["with"]["path"]).iterdir()}
    assert "home" in (tmp_path / "summary.md").read_text(encoding="utf-8")
