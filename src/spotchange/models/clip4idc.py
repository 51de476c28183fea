"""CLIP4IDC: a pair encoder, shared words, a text encoder for adaptation, a captioner for the sentence.

The baselines are the same composition of other parts; `build.py` says which.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.errors import ModelError
from spotchange.models.caption_decoder import CaptionDecoder
from spotchange.models.decoding import search
from spotchange.models.decoding.session import open_session
from spotchange.models.decoding.torch_arrays import TorchArrays
from spotchange.models.interface import DecodingOptions, Generated, VisualState
from spotchange.models.layers import PreNormBlock
from spotchange.models.text_encoder import TextEncoder, WordEmbedding
from spotchange.models.vision.heads import ChangeHead, PatchChangeHead
from spotchange.models.vision.pair_encoder import PairEncoder


class Clip4idc(nn.Module):
    """`CaptioningModel` and, with a text encoder, `RetrievalModel`."""

    def __init__(
        self,
        *,
        image_size: tuple[int, int],
        encoder: PairEncoder,
        words: WordEmbedding,
        special: search.SpecialIds,
        captioner: CaptionDecoder | None = None,
        text_encoder: TextEncoder | None = None,
        change_head: ChangeHead | None = None,
        patch_change_head: PatchChangeHead | None = None,
        noun_head: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.image_size = image_size
        self.special = special
        self.encoder = encoder
        self.words = words
        self.text_encoder = text_encoder
        # CLIP's learnable inverse temperature, as a logarithm, from its usual start of 1 / 0.07.
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07))) if text_encoder is not None else None
        self.captioner = captioner
        self.change_head = change_head
        self.patch_change_head = patch_change_head
        self.noun_head = noun_head

    # What the images say

    def encode(self, before: Tensor, after: Tensor) -> VisualState:
        """Both images (pairs, 3, height, width), preprocessed; see `PairEncoder.forward` for the extras."""
        seen = self.encoder(before, after)
        tokens = seen.pop("tokens")
        # One vector a pair: what both class tokens hold, and what the images look like on the whole.
        features = torch.cat([seen["classes"].mean(dim=1), seen["intra"].mean(dim=(1, 2))], dim=-1)
        return VisualState(tokens=tokens, grid=self.encoder.grid, features=features, extras=seen)

    def change_logits(self, state: VisualState) -> Tensor | None:
        """(pairs, change types), "none" first; None without a change head."""
        if self.change_head is None:
            return None
        heat = self.patch_change_logits(state) if self.change_head.by_heat else None
        logits: Tensor = self.change_head(state.extras["classes"], state.extras["inter"], heat)
        return logits

    def patch_change_logits(self, state: VisualState) -> Tensor | None:
        """(pairs, 2, patches); None without a patch change head."""
        return None if self.patch_change_head is None else self.patch_change_head(state.extras["inter"])

    def heatmap(self, state: VisualState) -> Tensor:
        """(pairs, 2, rows, columns) in [0, 1]: the patch head's opinion, else where the class tokens look."""
        scores = self.patch_change_logits(state)
        if scores is not None:
            result: Tensor = scores.float().sigmoid().unflatten(-1, state.grid)
            return result
        heat = self.class_attention(state) if len(self.encoder.inter) else self.patch_distance(state)
        return (heat / heat.amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)).clamp(0, 1)

    def class_attention(self, state: VisualState) -> Tensor:
        """(pairs, 2, rows, columns): each class token over its own image's patches, mean of heads."""
        second = self.encoder.second_class_token
        last = cast(PreNormBlock, self.encoder.inter[-1])
        weights = last.attention_of(state.extras["last_input"], [0, second]).mean(dim=1)  # (pairs, 2, tokens)
        own = torch.stack([weights[:, 0, 1:second], weights[:, 1, second + 1 :]], dim=1)
        result: Tensor = own.unflatten(-1, state.grid)
        return result

    def patch_distance(self, state: VisualState) -> Tensor:
        """(pairs, 2, rows, columns): how far a patch is from its counterpart, for models without inter blocks."""
        before, after = F.normalize(state.extras["intra"].float(), dim=-1).unbind(dim=1)
        apart = (1 - (before * after).sum(dim=-1)).clamp_min(0)
        result: Tensor = torch.stack([apart, apart], dim=1).unflatten(-1, state.grid)
        return result

    def name_windows(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of nouns and colours for images of single things (windows, 3, size, size), preprocessed."""
        if self.noun_head is None:
            raise ModelError("this model has no names for single things", hint="use an everyday model")
        network: Any = self.encoder.backbone.network
        nouns, colours = self.noun_head(network.summarise(windows))
        return nouns, colours

    # Captions

    def caption_logits(self, state: VisualState, ids: Tensor) -> Tensor:
        """Scores of the word after each of `ids` (pairs, words): (pairs, words, vocabulary). For training."""
        result: Tensor = self._captioner(state.tokens, ids, self.words)
        return result

    @torch.inference_mode()
    def generate(self, state: VisualState, options: DecodingOptions) -> Generated:
        """Sentences as token ids."""
        options = search.checked(options, context=len(self.words.positions))
        steps = open_session(
            self._captioner,
            self.words,
            state.tokens,
            rows_per_pair=search.rows_per_pair(options),
            max_words=options.max_words,
        )
        return search.generate(steps, len(state), self.special, options, TorchArrays(state.tokens.device))

    @property
    def _captioner(self) -> CaptionDecoder:
        if self.captioner is None:
            raise ModelError("this model has no captioner: it can only rank", hint="train the caption stage on top")
        return self.captioner

    # Retrieval

    def pair_embedding(self, state: VisualState) -> Tensor:
        """(pairs, output width), unit length: the mean of the two projected class tokens."""
        classes = state.tokens[:, [0, self.encoder.second_class_token]]
        return F.normalize(classes.float().mean(dim=1), dim=-1)

    def embed_pair(self, before: Tensor, after: Tensor) -> Tensor:
        """(pairs, output width), unit length."""
        return self.pair_embedding(self.encode(before, after))

    def embed_image(self, images: Tensor) -> Tensor:
        """(images, output width), unit length: one image alone, as CLIP embeds it. For models without inter blocks,
        whose tower ends where the images would meet."""
        return F.normalize(self.encoder.embed_alone(images).float(), dim=-1)

    def embed_text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(sentences, output width), unit length; `mask` True on words, begin and end tokens included."""
        if self.text_encoder is None:
            raise ModelError("this model has no text encoder: it can only caption", hint="use an adapted model")
        return F.normalize(self.text_encoder(self.words(ids), mask).float(), dim=-1)
