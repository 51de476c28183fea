"""One sentence in the making, for a batch of pairs: what `decoding` steps through word by word.

On a GPU a step is some sixty small kernels, and starting them costs more than running them. There the
step is captured once as a CUDA graph for each batch shape, and replayed for every word of every batch.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict

import torch
from torch import Tensor

from spotchange.models.caption_decoder import CaptionDecoder
from spotchange.models.text_encoder import WordEmbedding

_GRAPHS_KEPT = 4  # batch shapes; a run has its full batches and a last smaller one
_graphs: weakref.WeakKeyDictionary[CaptionDecoder, OrderedDict[tuple[object, ...], CaptionSession]] = (
    weakref.WeakKeyDictionary()
)


class CaptionSession:
    """Caches and position of `rows_per_pair` sentences for each pair of `visual`."""

    def __init__(
        self, decoder: CaptionDecoder, visual: list[tuple[Tensor, Tensor]], *, rows_per_pair: int, max_words: int
    ) -> None:
        keys = visual[0][0]
        rows = len(keys) * rows_per_pair
        self.visual = visual
        self.caches = decoder.new_caches(rows, max_words, like=keys)
        self.position = torch.zeros(1, dtype=torch.long, device=keys.device)
        self.steps = torch.arange(max_words, device=keys.device)
        self.ids = torch.zeros(rows, dtype=torch.long, device=keys.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.scores: Tensor | None = None

    def restart(self, visual: list[tuple[Tensor, Tensor]]) -> None:
        """Begin anew with other images, in the memory that a captured graph knows."""
        for kept, new in zip(self.visual, visual, strict=True):
            kept[0].copy_(new[0])
            kept[1].copy_(new[1])
        self.position.zero_()

    def advance(self, decoder: CaptionDecoder, words: WordEmbedding) -> Tensor:
        """Feed `self.ids`; scores of the next word (rows, vocabulary)."""
        # A word not written yet lies after `position`, so old caches need no clearing.
        seen = (self.steps <= self.position)[None, None, None]
        scores = decoder.step(
            self.ids, words, position=self.position, seen=seen, caches=self.caches, visual=self.visual
        )
        self.position += 1
        return scores

    def capture(self, decoder: CaptionDecoder, words: WordEmbedding) -> None:
        """Record `advance` as a CUDA graph."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), _autocast_without_cache():
            for _ in range(2):  # libraries allocate their workspaces outside the graph
                self.advance(decoder, words)
                self.position.zero_()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        # Only this thread's work must keep out of the recording: a server has others.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"), _autocast_without_cache():
            self.scores = self.advance(decoder, words)
        self.position.zero_()

    def select(self, rows: Tensor) -> None:
        """Let row i go on from the history of row `rows[i]`, of the same pair."""
        for cache in self.caches:
            cache.select(rows)


class Stepper:
    """Binds a session to the weights: `decoding` calls it and knows nothing of models."""

    def __init__(self, session: CaptionSession, decoder: CaptionDecoder, words: WordEmbedding) -> None:
        self._session = session
        self._decoder = decoder
        self._words = words

    def step(self, ids: Tensor) -> Tensor:
        """Scores of the next word (rows, vocabulary); valid until the next step."""
        self._session.ids.copy_(ids)
        if self._session.graph is not None and self._session.scores is not None:
            self._session.graph.replay()
            return self._session.scores
        return self._session.advance(self._decoder, self._words)

    def select(self, rows: Tensor) -> None:
        """Reorder the histories (beam search)."""
        self._session.select(rows)


def open_session(
    decoder: CaptionDecoder, words: WordEmbedding, tokens: Tensor, *, rows_per_pair: int, max_words: int
) -> Stepper:
    """Read the images' tokens once and get ready for the first word."""
    visual = [(keys.contiguous(), values.contiguous()) for keys, values in decoder.visual_keys_values(tokens)]
    if not tokens.is_cuda:
        return Stepper(
            CaptionSession(decoder, visual, rows_per_pair=rows_per_pair, max_words=max_words), decoder, words
        )
    kept = _graphs.setdefault(decoder, OrderedDict())
    weights = tuple(each.data_ptr() for module in (decoder, words) for each in module.parameters())
    keys = visual[0][0]
    # Threads must not write into each other's sentences, so each has its own graphs.
    shape = (threading.get_ident(), tuple(keys.shape), keys.dtype, keys.device, rows_per_pair, max_words)
    key = (*shape, _autocast_type(), weights)
    session = kept.get(key)
    if session is None:
        session = CaptionSession(decoder, visual, rows_per_pair=rows_per_pair, max_words=max_words)
        session.capture(decoder, words)
        kept[key] = session
        while len(kept) > _GRAPHS_KEPT:
            kept.popitem(last=False)
    else:
        kept.move_to_end(key)
        session.restart(visual)
    return Stepper(session, decoder, words)


def _autocast_type() -> torch.dtype | None:
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None


def _autocast_without_cache() -> torch.autocast:
    """The autocast that is on, if any, but casting weights anew: a graph must not keep yesterday's copies."""
    return torch.autocast(
        "cuda", dtype=_autocast_type() or torch.bfloat16, enabled=_autocast_type() is not None, cache_enabled=False
    )
