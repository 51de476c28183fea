"""Scene sentences in another tokenizer's pieces: the same as that tokenizer writes them."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from spotchange.config.model import VocabularySettings
from spotchange.language.vocabulary import BOS_ID, EOS_ID, PAD_ID, encode
from spotchange.models.weights.published.clip_tokenizer import clip_tokenizer
from spotchange.training.sources.generated.retokenise import WordTable

SENTENCES = (
    "the large red metal cube to the left of the tiny sphere is no longer there",
    "the scene is the same as before",
    "a small cyan rubber cylinder has been added",
)


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    """Writes every word as its letters, the last one marked, as byte-pair encoders do."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["<|startoftext|>", "<|endoftext|>", *alphabet, *(letter + "</w>" for letter in alphabet)]
    model = models.BPE({piece: i for i, piece in enumerate(pieces)}, [], end_of_word_suffix="</w>")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    return tokenizer


def as_ids(sentences: tuple[str, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [[BOS_ID, *encode(text), EOS_ID] for text in sentences]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [PAD_ID] * (longest - len(row)) for row in rows])
    return ids, ids != PAD_ID


def test_pieces_are_the_tokenizers_own(letters: Tokenizer) -> None:
    vocabulary = VocabularySettings(size=54, begin=0, end=1, pad=0)
    table = WordTable(letters, vocabulary, context=90)
    ids, mask = table.pieces_of(*as_ids(SENTENCES))
    assert ids.shape[1] <= 90
    for row, kept, text in zip(ids, mask, SENTENCES, strict=True):
        assert row[kept].tolist() == [0, *letters.encode(text).ids, 1]
        assert (row[~kept] == 0).all()


def test_long_sentences_are_cut_and_still_end(letters: Tokenizer) -> None:
    table = WordTable(letters, VocabularySettings(size=54, begin=0, end=1, pad=0), context=12)
    ids, mask = table.pieces_of(*as_ids(SENTENCES))
    assert ids.shape == (3, 12)
    assert mask.all()
    assert (ids[:, -1] == 1).all()
    assert ids[0, :11].tolist() == [0, *letters.encode(SENTENCES[0]).ids][:11]


@pytest.mark.skipif(find_spec("open_clip") is None, reason="open_clip_torch carries CLIP's tokens")
def test_clip_writes_the_same() -> None:
    tokenizer = clip_tokenizer()
    ids, mask = WordTable(tokenizer, VocabularySettings(), context=32).pieces_of(*as_ids(SENTENCES))
    for row, kept, text in zip(ids, mask, SENTENCES, strict=True):
        assert row[kept].tolist() == tokenizer.encode(text).ids
