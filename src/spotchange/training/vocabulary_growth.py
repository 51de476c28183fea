"""Words that a data set uses and a word-level model does not know: learnt as new, beside all it knew before."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import torch
from tokenizers import Tokenizer
from torch import nn

_WORD_TENSORS = ("words.words.weight", "captioner.predict.weight", "captioner.predict.bias")  # one row a word


def extended(tokenizer: Tokenizer, captions: Iterable[str], *, least: int = 2) -> Tokenizer:
    """The tokenizer with every word that captions use `least` times; one of word pieces knows them all already."""
    plan = json.loads(tokenizer.to_str())
    if plan["model"]["type"] != "WordLevel":
        return tokenizer
    vocabulary = plan["model"]["vocab"]
    counts: Counter[str] = Counter()
    for caption in captions:
        text = tokenizer.normalizer.normalize_str(caption) if tokenizer.normalizer else caption
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    fresh = sorted(word for word, count in counts.items() if count >= least and word not in vocabulary)
    first = 1 + max(vocabulary.values())
    vocabulary.update({word: first + place for place, word in enumerate(fresh)})
    return Tokenizer.from_str(json.dumps(plan))


@torch.no_grad()
def keep_known_words(model: nn.Module, old_state: dict[str, torch.Tensor]) -> None:
    """Give the first rows of `model`'s word tensors the values they had; rows of new words keep their random start."""
    state = model.state_dict()
    for name in _WORD_TENSORS:
        if name in state and name in old_state:
            known = min(len(state[name]), len(old_state[name]))
            state[name][:known] = old_state[name][:known]
