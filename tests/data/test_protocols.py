"""Protocols: which sentences are references, which pairs are counted together."""

from __future__ import annotations

from typing import get_args

import pytest

from spotchange.config.data import ProtocolName
from spotchange.data import Row
from spotchange.data.protocols import PROTOCOLS, get_protocol
from spotchange.errors import ConfigError


def test_settings_know_every_protocol() -> None:
    assert set(get_args(ProtocolName)) == set(PROTOCOLS)
    assert all(name == protocol.name for name, protocol in PROTOCOLS.items())


def test_sentences_are_references_apart_or_joined() -> None:
    captions = ["a car left.", " ", "a man came "]
    assert get_protocol("spot-the-diff-single").references(captions) == ["a car left.", "a man came"]
    assert get_protocol("spot-the-diff-multi").references(captions) == ["a car left . a man came"]
    assert get_protocol("spot-the-diff-multi").references([]) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("clevr-change", {"total": "abcd", "change": "ab", "color": "a", "move": "b", "distractors": "c"}),
        ("levir-cc", {"total": "abcd", "change": "ab", "no change": "c"}),
        ("birds-to-words", {"total": "abcd"}),
        ("pairs", {"total": "abcd", "change": "ab", "color": "a", "move": "b", "no change": "c"}),
    ],
)
def test_tables(name: str, expected: dict[str, str]) -> None:
    kinds = {"a": "color", "b": "move", "c": "none", "d": None}
    rows = [Row(id=i, before_file_name="x", after_file_name="y", change_type=kind) for i, kind in kinds.items()]
    assert get_protocol(name).group_ids(rows) == {group: list(ids) for group, ids in expected.items()}


def test_main_metric_is_the_papers() -> None:
    assert get_protocol("birds-to-words").main_metric == "ROUGE-L"
    assert get_protocol("clevr-change").main_metric == "CIDEr-D"


def test_unknown_protocol_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown protocol 'levir'") as caught:
        get_protocol("levir")
    assert caught.value.hint == "did you mean 'levir-cc'?"
