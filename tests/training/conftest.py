"""A model small enough for a test, and batches drawn from a counter."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from spotchange.config.model import ModelSettings
from spotchange.language.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, TOKENS
from spotchange.models.build import build_model
from spotchange.pairs import PairBatch

TINY = {
    "preset": "spotchange-tiny",
    "vision": {"image_size": [24, 36], "width": 16, "layers": 2, "n_inter": 1, "output_width": 16},
    "text": {"width": 16, "layers": 1, "context": 24},
    "captioner": {"width": 16},
}
GRID = (2, 3)


def random_batch(pairs: int, seed: int) -> PairBatch:
    """Random images and truth of the right shapes: change rows at even, distractor rows at odd places."""
    draw = torch.Generator().manual_seed(seed)

    def integers(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=draw)

    patches = GRID[0] * GRID[1]
    words, length = 12, integers(4, 9, pairs)
    ids = integers(len(SPECIAL_TOKENS), len(TOKENS), pairs, words)
    places = torch.arange(words)
    ids[:, 0] = BOS_ID
    ids = torch.where(places == length[:, None], EOS_ID, ids)
    mask = places <= length[:, None]
    change = integers(1, 6, pairs)
    change[1::2] = 0
    attributes = torch.stack([integers(-1, 8, pairs, 2, patches)] + [integers(0, 2, pairs, 2, patches)] * 3, dim=-1)
    attributes[attributes[..., 0] < 0] = -1
    changed = integers(0, 2, pairs, 2, patches).bool()
    changed[1::2] = False
    answer = torch.stack([integers(0, 8, pairs)] + [integers(0, 2, pairs)] * 5, dim=-1)
    answer[1::2] = -1
    return PairBatch(
        before=integers(0, 256, pairs, 3, 24, 36).to(torch.uint8),
        after=integers(0, 256, pairs, 3, 24, 36).to(torch.uint8),
        caption_ids=torch.where(mask, ids, PAD_ID),
        caption_mask=mask,
        change_type=change,
        scene_id=torch.arange(pairs) // 2,
        patch_attributes=attributes.to(torch.int8),
        change_mask=changed,
        answer=answer,
    )


class CountingSource:
    """Batch number i is drawn from seed i."""

    paired = True
    shares_before = False

    def __init__(self, pairs: int) -> None:
        self.pairs, self.number = pairs, 0

    def next_batch(self) -> PairBatch:
        self.number += 1
        return random_batch(self.pairs, self.number)

    def state_dict(self) -> dict[str, Any]:
        return {"number": self.number}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.number = state["number"]


@pytest.fixture
def tiny_settings() -> ModelSettings:
    return ModelSettings.model_validate(TINY)


@pytest.fixture
def tiny_model(tiny_settings: ModelSettings) -> torch.nn.Module:
    torch.manual_seed(0)
    return build_model(tiny_settings)


@pytest.fixture
def make_batch() -> Any:
    return random_batch


@pytest.fixture
def counting_source() -> CountingSource:
    return CountingSource(pairs=8)
