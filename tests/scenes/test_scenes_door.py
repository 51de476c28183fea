"""The package's front door: every name is there, and opening it costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spotchange import scenes


def test_every_exported_name_resolves() -> None:
    assert sorted(scenes.__all__) == scenes.__all__
    for name in scenes.__all__:
        assert getattr(scenes, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = scenes.nothing


def test_words_come_without_the_compiler() -> None:
    program = "import sys, spotchange.language.vocabulary; print({'numba', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
