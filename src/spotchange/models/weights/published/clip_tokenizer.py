"""CLIP's tokens as a `tokenizers.Tokenizer`, made offline from the merges that open_clip_torch carries."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from spotchange.errors import MissingExtraError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BEGIN, END = "<|startoftext|>", "<|endoftext|>"
_MERGES = 49152 - 256 - 2  # the file holds more than CLIP uses
_END_OF_WORD = "</w>"
_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def clip_tokenizer() -> Tokenizer:
    """CLIP's tokenizer: 49,408 tokens, begin and end tokens put around; pad with id 0, as CLIP does."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    merges = _read_merges()
    letters = _byte_letters()
    vocabulary = letters + [letter + _END_OF_WORD for letter in letters] + ["".join(pair) for pair in merges]
    vocabulary += [BEGIN, END]
    ids = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(
        models.BPE(
            vocab=ids,
            merges=merges,
            unk_token=END,
            continuing_subword_prefix="",
            end_of_word_suffix=_END_OF_WORD,
            fuse_unk=False,
        )
    )
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in (BEGIN, END)])
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A {END}", special_tokens=[(BEGIN, ids[BEGIN]), (END, ids[END])]
    )
    make_readable(tokenizer)
    return tokenizer


def make_readable(tokenizer: Tokenizer) -> None:
    """Let ids decode to words with blanks between; the hub's CLIP files leave `</w>` in the text."""
    from tokenizers import decoders

    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace(_END_OF_WORD, " ")])


def _read_merges() -> list[tuple[str, str]]:
    # Found, not imported: importing open_clip loads torchvision and takes seconds.
    package = importlib.util.find_spec("open_clip")
    if package is None or package.origin is None:
        raise MissingExtraError("CLIP's vocabulary", extra="clip")
    path = Path(package.origin).with_name("bpe_simple_vocab_16e6.txt.gz")
    lines = gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")[1 : _MERGES + 1]
    return [(first, second) for first, second in (line.split() for line in lines)]


def _byte_letters() -> list[str]:
    """A visible character for each of the 256 bytes, in the order of CLIP's vocabulary."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte) for byte in visible] + [chr(256 + number) for number in range(len(hidden))]
