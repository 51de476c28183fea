"""The 72 words of CLEVR-Change, their token ids, and the compact tokenizer that ships with models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, BOS, EOS, UNK, MASK = "[PAD]", "[BOS]", "[EOS]", "[UNK]", "[MASK]"
# A model that reads both images and the text as one sequence (IDC-PCL) marks its parts with the last three.
SPECIAL_TOKENS = (PAD, BOS, EOS, UNK, MASK, "[CLS]", "[IMG1]", "[IMG2]")
PAD_ID, BOS_ID, EOS_ID, UNK_ID, MASK_ID, CLS_ID, IMG1_ID, IMG2_ID = range(len(SPECIAL_TOKENS))

_WORDS = (
    "a added appeared as ball became been before behind big block blue brown change changed cube cyan cylinder "
    "difference different disappeared front gone gray green has identical in is its large left location longer made "
    "matte metal metallic missing modified moved newly no nothing object occurred of on placed purple red remains "
    "right rubber same scene scenes seem shiny side small sphere that the there thing tiny to turned two was "
    "yellow"
)
WORDS = tuple(_WORDS.split())
TOKENS = SPECIAL_TOKENS + WORDS
TOKEN_IDS = {token: index for index, token in enumerate(TOKENS)}


def encode(text: str) -> list[int]:
    """Ids of a sentence of this language, without start and end marks; a foreign word becomes [UNK]."""
    return [TOKEN_IDS.get(word, UNK_ID) for word in text.lower().split()]


def decode(ids: Iterable[int]) -> str:
    """The sentence up to the first [EOS], special tokens left out."""
    words = []
    for token_id in ids:
        if token_id == EOS_ID:
            break
        if token_id >= len(SPECIAL_TOKENS):
            words.append(TOKENS[token_id])
    return " ".join(words)


def build_tokenizer() -> Tokenizer:
    """A word-level tokenizer with the same ids: lower case, punctuation dropped, [BOS] and [EOS] put around."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel(dict(TOKEN_IDS), unk_token=UNK))
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(behavior="removed")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A {EOS}", special_tokens=[(BOS, BOS_ID), (EOS, EOS_ID)]
    )
    return tokenizer
