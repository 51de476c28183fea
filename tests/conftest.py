"""What many tests share: the place of optional local data, and tools that CI must not skip."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def need(available: bool, what: str) -> None:
    """Skip for want of `what` at home, fail for it under CI."""
    if available:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing; CI must not skip this test")
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="session")
def java() -> str:
    """Path of a Java runtime."""
    path = shutil.which("java")
    need(path is not None, "a Java runtime")
    return str(path)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium browser."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    need(path is not None, "Chromium")
    return str(path)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of optional local data (real pictures, annotations); tests that need it skip without it."""
    folder = Path(os.environ.get("SPOTCHANGE_SHARED", REPOSITORY.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("no local data folder (set SPOTCHANGE_SHARED)")
    return folder
