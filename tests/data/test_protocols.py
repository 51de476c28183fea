"""Protocols: which sentences are references."""

from __future__ import annotations

from typing import get_args

import pytest

from spotchange.config.data import ProtocolName
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


def test_unknown_protocol_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown protocol 'levir'") as caught:
        get_protocol("levir")
    assert caught.value.hint == "did you mean 'levir-cc'?"
