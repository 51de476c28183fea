"""What is exported of a model: a graph that looks at a pair, one that writes a word, and one that names single things.

Both runtimes share the parts of the model; only the caches differ. The torch path allocates them once and writes
in place; a graph gets the past as inputs and gives back a past that is one word longer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from spotchange.errors import ModelError
from spotchange.models.build import build_model
from spotchange.models.clip4idc import Clip4idc
from spotchange.models.export.layout import DECODER_STEP, ENCODER, NAMER
from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import VisualState
from spotchange.models.weights.description import read_settings

Layers = list[tuple[Tensor, Tensor]]


class GrowingCache:
    """The stand-in for `KeyValueCache` in a graph: nothing is written in place."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values

    def write(self, keys: Tensor, values: Tensor, position: Tensor) -> None:
        """Append; `position` is where the torch path would write."""
        self.keys = torch.cat([self.keys, keys], dim=2)
        self.values = torch.cat([self.values, values], dim=2)


class PairGraph(nn.Module):
    """Two batches of preprocessed images to everything an answer needs but the words.

    Outputs, in order: heat, features, change logits (where the model has the head), then keys and values of the
    images for each layer of the decoder.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, before: Tensor, after: Tensor) -> tuple[Tensor, ...]:
        state = self.model.encode(before, after)
        logits = self.model.change_logits(state)
        outputs = [self.model.heatmap(state), state.features, *([] if logits is None else [logits])]
        return (*outputs, *(each for layer in self.visual(state) for each in layer))

    def visual(self, state: VisualState) -> Layers:
        """Keys and values of the images, (pairs, heads, tokens, head width) a layer."""
        result: Layers = self.model._captioner.visual_keys_values(state.tokens)
        return result


class CrossModalPairGraph(PairGraph):
    """The same for IDC-PCL, whose images are the first tokens of the decoder's own sequence."""

    def visual(self, state: VisualState) -> Layers:
        transformer, tokens = self.model.captioner, state.tokens
        empty = tokens.new_zeros(len(tokens), transformer.heads, 0, tokens.shape[-1] // transformer.heads)
        caches = [GrowingCache(empty, empty) for _ in transformer.blocks]
        transformer.step(tokens, caches, None, None)  # images see all images and no word
        return [(cache.keys, cache.values) for cache in caches]


class StepGraph(nn.Module):
    """One more word for every beam of every pair.

    Inputs: `ids` (pairs, beams), `position` (1,), keys and values of the images (pairs, heads, tokens, head width) and
    of the words so far (pairs, beams, heads, words, head width) for each layer. Outputs: scores of the next word
    (pairs, beams, vocabulary), then the grown keys and values.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, position: Tensor, visual: list[Tensor], past: list[Tensor]) -> tuple[Tensor, ...]:
        pairs, beams = ids.shape
        caches = [GrowingCache(keys.flatten(0, 1), values.flatten(0, 1)) for keys, values in _by_layer(past)]
        scores = self.scores(ids, position, _by_layer(visual), caches)
        grown = [each.unflatten(0, (pairs, beams)) for cache in caches for each in (cache.keys, cache.values)]
        return (scores.unflatten(0, (pairs, beams)), *grown)

    def scores(self, ids: Tensor, position: Tensor, visual: Layers, caches: list[GrowingCache]) -> Tensor:
        """(rows, vocabulary); the caches grow by the word."""
        # A past without gaps needs no mask.
        scores: Tensor = self.model._captioner.step(
            ids.flatten(), self.model.words, position=position, seen=None, caches=caches, visual=visual
        )
        return scores


class CrossModalStepGraph(StepGraph):
    """The same for IDC-PCL: the last word and a [MASK] go in, and the [MASK] is read."""

    def scores(self, ids: Tensor, position: Tensor, visual: Layers, caches: list[GrowingCache]) -> Tensor:
        transformer, words = self.model.captioner, self.model.words
        flat = ids.flatten()
        both = torch.stack([flat, torch.full_like(flat, words.mask_id)], dim=1)
        x = words.of_words_at(both, torch.cat([position, position + 1]))
        reads = [_ImagesThenWords(layer, cache, ids.shape[1]) for layer, cache in zip(visual, caches, strict=True)]
        read = transformer.step(x, reads, position, reads[0].seen())
        scores: Tensor = transformer.predict(read[:, 1])
        return scores


class _ImagesThenWords:
    """A cache that attention reads as images, words so far, the word and its [MASK]; only words are kept."""

    def __init__(self, visual: tuple[Tensor, Tensor], past: GrowingCache, beams: int) -> None:
        # Every beam of a pair reads the same images.
        self._visual = [each[:, None].expand(-1, beams, -1, -1, -1).flatten(0, 1) for each in visual]
        self._past = past
        self.keys = self.values = past.keys

    def write(self, keys: Tensor, values: Tensor, position: Tensor) -> None:
        self._past.write(keys[:, :, :1], values[:, :, :1], position)
        self.keys = torch.cat([self._visual[0], self._past.keys, keys[:, :, 1:]], dim=2)
        self.values = torch.cat([self._visual[1], self._past.values, values[:, :, 1:]], dim=2)

    def seen(self) -> Tensor:
        """(2, tokens): nobody but the [MASK] itself sees the [MASK], which comes last."""
        before = self._visual[0].shape[2] + self._past.keys.shape[2] + 1
        own = torch.tensor([[False], [True]], device=self.keys.device)
        return torch.cat([torch.ones(2, before, dtype=torch.bool, device=self.keys.device), own], dim=1)


class WindowGraph(nn.Module):
    """Windows round single things (windows, 3, side, side), preprocessed, to scores of nouns and of colours."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        nouns, colours = self.model.name_windows(windows)
        return nouns, colours


def _by_layer(flat: list[Tensor]) -> Layers:
    """Keys and values by turns, in pairs."""
    return list(zip(flat[::2], flat[1::2], strict=True))


GRAPHS: dict[type[nn.Module], tuple[Callable[[Any], PairGraph], Callable[[Any], StepGraph]]] = {
    Clip4idc: (PairGraph, StepGraph),
    IdcPcl: (CrossModalPairGraph, CrossModalStepGraph),
}


def graphs_of(model: nn.Module) -> dict[str, nn.Module]:
    """The graphs of a model by their files, or one line that says why there are none."""
    if type(model) not in GRAPHS:
        raise ModelError(
            f"{type(model).__name__} has no ONNX export", hint="it captions with torch: leave --to onnx out"
        )
    if getattr(model, "captioner", None) is None:
        raise ModelError("this model has no captioner: there is nothing to export", hint="train the caption stage")
    pair, step = GRAPHS[type(model)]
    graphs: dict[str, nn.Module] = {ENCODER: pair(model).eval(), DECODER_STEP: step(model).eval()}
    if getattr(model, "noun_head", None) is not None:
        graphs[NAMER] = WindowGraph(model).eval()
    return graphs


def check_has_graphs(folder: Path) -> None:
    """Refuse a model folder whose kind of model has none, before anything is written."""
    with torch.device("meta"):
        graphs_of(build_model(read_settings(folder)))


def past_shapes(model: Any) -> list[tuple[int, int]]:
    """Heads and head width of each layer that attends over words, in the order of `StepGraph`'s inputs."""
    if isinstance(model, IdcPcl):
        heads = model.captioner.heads
        return [(heads, model.words.width // heads)] * len(model.captioner.blocks)
    caches = model._captioner.new_caches(1, 1, like=torch.empty(0))
    return [(cache.keys.shape[1], cache.keys.shape[3]) for cache in caches]


def longest_sentence(model: Any) -> int:
    """Word positions the decoder has."""
    positions = len(model.words.positions)
    # A [MASK] after the last word needs a position too.
    return positions - 1 if isinstance(model, IdcPcl) else positions
