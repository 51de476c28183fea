"""A small model folder, and a hub on loopback; the server lies beside, in `hub_server.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spotchange.language import build_tokenizer
from spotchange.models.build import build_model, settings_for
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.weights.folder import save_model

sys.path.insert(0, str(Path(__file__).parent))

from hub_server import TOKEN, Hub


@pytest.fixture
def ours(make_settings: Callable, tmp_path: Path) -> Path:
    """A model folder as training writes it."""
    tokenizer = build_tokenizer()
    settings = settings_for(make_settings(), tokenizer)
    save_model(
        tmp_path / "ours",
        model=build_model(settings),
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=Preprocessor(image_size=settings.vision.image_size),
        texts={"recipe.yaml": "name: ours\n"},
    )
    return tmp_path / "ours"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A server that speaks as the hub does, and a user who is logged in."""
    from huggingface_hub import constants

    with Hub(TOKEN) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield server
