"""The language of CLEVR-Change: vocabulary, writer, grammar, checker.

Only what needs no compiler is exported; `writer`, `image_texts` and `descriptions` are imported by name.
"""

from spotchange.language.checker import SentenceCheck, check, check_facts, find_change, has_all_attributes
from spotchange.language.grammar import (
    MEANING,
    Claim,
    UnreadableError,
    change_type_of,
    read_claim,
    says_no_change,
)
from spotchange.language.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIAL_TOKENS,
    TOKEN_IDS,
    TOKENS,
    build_tokenizer,
    decode,
)

__all__ = [
    "BOS_ID",
    "EOS_ID",
    "MEANING",
    "PAD_ID",
    "SPECIAL_TOKENS",
    "TOKENS",
    "TOKEN_IDS",
    "Claim",
    "SentenceCheck",
    "UnreadableError",
    "build_tokenizer",
    "change_type_of",
    "check",
    "check_facts",
    "decode",
    "find_change",
    "has_all_attributes",
    "read_claim",
    "says_no_change",
]
