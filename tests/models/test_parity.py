"""A checkpoint made by the published layout's recipe must give the published program's numbers.

SPOTCHANGE_CLIP4IDC_ORACLE names another file of the same form; seeds, scale and inputs are read from its text.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from spotchange.models.interface import VisualState
from spotchange.models.weights.folder import LoadedModel
from spotchange.models.weights.published.importing import import_model

TRUTH: dict[str, Any] = json.loads(
    Path(os.environ.get("SPOTCHANGE_CLIP4IDC_ORACLE", Path(__file__).with_name("clip4idc_parity.json"))).read_text()
)
TOLERANCE = {"atol": 1e-4, "rtol": 0}
LOGITS = next(name for name in TRUTH if name.startswith("caption_logits_at_vocab_"))


def told(pattern: str, about: str = TRUTH["about"]) -> tuple[str, ...]:
    """What the oracle says in words about how it was made."""
    found = re.search(pattern, about)
    assert found, f"the oracle does not say {pattern}"
    return found.groups()


def published_checkpoint() -> dict[str, Tensor]:
    """The recipe of the JSON: seeded weights, LayerNorms around one, tied names sharing storage."""
    first, scale = told(r"generator seeded (\d+) \+ i\) \* ([\d.]+\d)")
    state = {}
    for number, key in enumerate(sorted(TRUTH["keys"])):
        generator = torch.Generator().manual_seed(int(first) + number)
        state[key] = torch.randn(TRUTH["keys"][key], generator=generator) * float(scale)
        if key.endswith(tuple(TRUTH["layernorm_suffixes"])):
            state[key] += 1
    state["clip.logit_scale"] = torch.tensor(float(told(r"logit_scale = ([\d.]+\d)")[0]))
    return state | {tied: state[source] for tied, source in TRUTH["tied"].items()}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    path = tmp_path_factory.mktemp("published") / "pytorch_model.bin"
    torch.save(published_checkpoint(), path)
    return import_model(path)


@pytest.fixture(scope="module")
def state(imported: LoadedModel) -> VisualState:
    shape, *seeds = told(r"before = randn\(([\d, ]+)\) seeded (\d+), after = the same seeded (\d+)")
    size = [int(each) for each in shape.split(",")]
    before, after = (torch.randn(size, generator=torch.Generator().manual_seed(int(seed))) for seed in seeds)
    with torch.no_grad():
        return imported.model.encode(before, after)


@torch.no_grad()
def test_pair_and_text_embeddings(imported: LoadedModel, state: VisualState) -> None:
    ids = torch.tensor(TRUTH["text_ids"])
    model = imported.model
    # The JSON keeps embeddings as they were before they are made unit length.
    second = model.encoder.second_class_token
    pair = state.tokens[:, [0, second]].mean(dim=1)
    mask = (ids != 0).long()
    text = model.text_encoder(model.words(ids), mask)
    torch.testing.assert_close(pair[:, :8], torch.tensor(TRUTH["pair_embedding_first8"]), **TOLERANCE)
    torch.testing.assert_close(text[:, :8], torch.tensor(TRUTH["text_embedding_first8"]), **TOLERANCE)
    similarity = model.logit_scale.exp() * model.embed_text(ids, mask) @ model.pair_embedding(state).T
    torch.testing.assert_close(similarity.flatten(), torch.tensor(TRUTH["similarity"]), **TOLERANCE)


def test_visual_tokens(state: VisualState) -> None:
    for place, values in TRUTH["visual_tokens_first4"].items():
        torch.testing.assert_close(state.tokens[:, int(place), :4], torch.tensor(values), **TOLERANCE)


@torch.no_grad()
def test_caption_scores(imported: LoadedModel, state: VisualState) -> None:
    logits = imported.model.caption_logits(state, torch.tensor(TRUTH["caption_ids"]))
    words = [int(each) for each in LOGITS.removeprefix("caption_logits_at_vocab_").split("_")]
    torch.testing.assert_close(logits[:, :, words], torch.tensor(TRUTH[LOGITS]), **TOLERANCE)
    assert logits.argmax(dim=-1).tolist() == TRUTH["caption_argmax"]
