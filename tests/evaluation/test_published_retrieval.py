"""Retrieval figures of the published program on fixed similarity matrices.

SPOTCHANGE_RETRIEVAL_ORACLE names another file of the same form.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spotchange.errors import InputError
from spotchange.evaluation.published_retrieval import (
    PAIR_TO_TEXT,
    TEXT_TO_PAIR,
    pair_to_text_ranks,
    published_retrieval,
    text_to_pair_ranks,
)

ORACLE: dict[str, Any] = json.loads(
    Path(os.environ.get("SPOTCHANGE_RETRIEVAL_ORACLE", Path(__file__).with_name("retrieval_parity.json"))).read_text()
)
NAMES = {"R1": "R@1", "R5": "R@5", "R10": "R@10", "MedianR": "median rank", "MeanR": "mean rank"}


def inputs(case: dict[str, Any]) -> tuple[np.ndarray, list[list[int]]]:
    similarity = np.array(case["similarity_rows_captions_columns_pairs"]).T
    captions: list[list[int]] = [[] for _ in case["captions_per_pair"]]
    for caption, pair in enumerate(case["caption_to_pair"]):
        captions[pair].append(caption)
    return similarity, captions


@pytest.mark.parametrize("case", ORACLE["cases"].values(), ids=ORACLE["cases"].keys())
def test_the_program_s_figures(case: dict[str, Any]) -> None:
    similarity, captions = inputs(case)
    scores = published_retrieval(similarity, captions)
    for key, direction in (("text_to_pair", TEXT_TO_PAIR), ("pair_to_text", PAIR_TO_TEXT)):
        for theirs, ours in NAMES.items():
            if key in case:
                factor = 100 if theirs.startswith("R") else 1
                got = factor * scores[direction][ours]
                assert got == pytest.approx(case[key][theirs], abs=ORACLE["tolerance"]), (key, theirs)
    found = pair_to_text_ranks(similarity, captions).tolist()
    expected = case["pair_to_text"].get("ranks_found") or case["pair_to_text"].get("rank_of_each_pair")
    assert len(found) == case["pair_to_text"]["count"]
    assert found == expected
    if "text_to_pair" in case:
        assert text_to_pair_ranks(similarity, captions).tolist() == case["text_to_pair"]["rank_of_each_caption"]


def test_shapes_must_agree() -> None:
    with pytest.raises(InputError, match="2 rows of similarities against 1 pairs"):
        published_retrieval(np.zeros((2, 2)), [[0]])
