"""A real OpenAI-compatible server from PyPI, `transformers serve`, with a tiny checkpoint, asked as `openai:`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from PIL import Image
from tiny_families import FAMILIES, teach

from spotchange.answering import ImagePair
from spotchange.answering.interface import Answer, CaptionOptions
from spotchange.answering.vlm.build import build_vlm

READY_SECONDS = 240  # on a busy machine; it imports half of transformers
# As `transformers serve` is installed, with torchvision hidden: one built for another torch would break the import.
START = "import sys; sys.modules['torchvision'] = None; from transformers.cli.transformers import main; main()"


def pairs() -> list[ImagePair]:
    red, green, blue = (Image.new("RGB", (40, 30), color) for color in ("red", "green", "blue"))
    return [ImagePair.of(red, blue), ImagePair.of(green, blue)]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Base URL and name of the model."""
    pytest.importorskip("openai", reason="transformers serve needs it")
    folder = tmp_path / "tiny"
    FAMILIES["llava"](folder)
    model = build_vlm(f"vlm:{folder}", {"no_cache": "true"}, device="cpu")
    teach(model.asker.model, [model._question(pair, None) for pair in pairs()], folder)  # type: ignore[arg-type]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", START, "serve", str(folder), "--port", str(port), "--host", "127.0.0.1"],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until and server.poll() is None:
            try:
                if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.5)
        else:
            server.kill()
            pytest.fail(f"the server did not start: {server.communicate()[1][-2000:]}")
        yield f"openai:http://127.0.0.1:{port}/v1#{folder}"
    finally:
        server.kill()
        server.communicate()


@pytest.mark.slow
def test_transformers_serve_is_asked_like_any_other_server(address: str) -> None:
    options = {"no_cache": "true", "max_new_tokens": "4", "timeout": "120", "score": "true", "concurrency": "2"}
    answerer = build_vlm(address, options, device="cpu")
    answers = answerer.answer(pairs(), CaptionOptions())
    assert [type(each) for each in answers] == [Answer, Answer]
    for answer in answers:
        assert isinstance(answer, Answer)
        assert answer.result.caption == "the mug is gone"
        # It takes the request for probabilities and tells none.
        assert any("tells no probabilities" in each for each in answer.result.warnings)
    assert (answerer.usage.asked, answerer.usage.failed) == (4, 0)
    assert answerer.usage.reply_tokens == 2 * 2 + 2  # the reply and its end; yes or no
    assert answerer.usage.prompt_tokens > 4 * 250
