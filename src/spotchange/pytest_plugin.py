"""pytest plugin: `assert_unchanged(page.screenshot(), "home.png")` against a baseline in the repository.

Baselines lie in `screenshots/` beside the test file, or in the folder that the setting `spotchange_baselines` names
(relative to the root of the project). `pytest --spotchange-update` writes them. A failure leaves before, after and a
diff image in `spotchange_results` (default `test-results/spotchange`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from spotchange.image_sources import ImageSource

BASELINES, RESULTS = "spotchange_baselines", "spotchange_results"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag and the two settings."""
    group = parser.getgroup("spotchange")
    group.addoption("--spotchange-update", action="store_true", help="write baselines instead of comparing with them")
    parser.addini(BASELINES, "folder of baseline images (default: screenshots/ beside the test file)", default="")
    parser.addini(RESULTS, "folder for images of failed comparisons", default="test-results/spotchange")


@pytest.fixture
def assert_unchanged(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare an image with its baseline: `assert_unchanged(image, "home.png", preset="tolerant", ignore=[...])`."""
    config = request.config
    configured = str(config.getini(BASELINES))
    baselines = config.rootpath / configured if configured else Path(request.path).parent / "screenshots"
    results = config.rootpath / str(config.getini(RESULTS))
    update = bool(config.getoption("--spotchange-update"))

    def check(image: ImageSource, name: str, **tolerances: object) -> None:
        """Fail with what changed; tolerances are the fields of `ComparisonOptions`."""
        __tracebackhide__ = True
        problem = compare_with_baseline(image, _inside(baselines, name), results / name, update=update, **tolerances)
        if problem is not None:
            pytest.fail(problem, pytrace=False)

    return check


def compare_with_baseline(
    image: ImageSource, baseline: Path, results: Path, *, update: bool, **tolerances: object
) -> str | None:
    """What is wrong, or None; with `update` the baseline is written where it differs."""
    from spotchange.answering import LazyImage
    from spotchange.comparison import ComparisonOptions, compare
    from spotchange.files import write_bytes
    from spotchange.images import encode_image
    from spotchange.regression.diff_image import write_diff

    current = LazyImage(image)
    content = current.encoded if current.encoded is not None else encode_image(current.pil)
    if not baseline.is_file():
        if update:
            write_bytes(baseline, content)
            return None
        write_bytes(results.with_name(f"{results.stem}-after{results.suffix}"), content)
        return f"{baseline.name}: there is no baseline at {baseline}; pytest --spotchange-update writes it"
    found = compare(baseline, content, ComparisonOptions(**tolerances))  # type: ignore[arg-type]
    if not found.changed:
        return None
    if update:
        write_bytes(baseline, content)
        return None
    for side, written in (("before", baseline.read_bytes()), ("after", content)):
        write_bytes(results.with_name(f"{results.stem}-{side}{results.suffix}"), written)
    diff = results.with_name(f"{results.stem}-diff.png")
    write_diff(diff, baseline, found)
    numbers = f"{found.diff_pixels} pixels, {100 * found.diff_ratio:.3g} %"
    return f"{baseline.name} changed: {found.summary} ({numbers}); see {diff}"


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if folder.resolve() not in path.parents:
        raise ValueError(f"the baseline {name!r} must lie inside {folder}")
    return path
