"""Pairs, a reply, and how a scripted server is asked about them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from PIL import Image

from scripted_server import Server
from spotchange.answering import ImagePair
from spotchange.answering.interface import CaptionOptions
from spotchange.answering.vlm.build import build_vlm

GOOD = json.dumps({"changed": True, "caption": "the red mug is gone"})


def pairs(count: int) -> list[ImagePair]:
    rng = np.random.default_rng(3)
    images = [Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)) for _ in range(2 * count)]
    return [ImagePair.of(before, after) for before, after in zip(images[::2], images[1::2], strict=True)]


def ask(server: Server, count: int = 1, *, model: str | None = None, **options: str) -> list[Any]:
    answerer = build_vlm(model or server.model, {"no_cache": "true", "retries": "3", **options}, device="cpu")
    return list(answerer.answer(pairs(count), CaptionOptions()))
