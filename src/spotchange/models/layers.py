"""Transformer blocks: CLIP's pre-norm kind and the captioner's post-norm (BERT) kind.

Every attention goes through `F.scaled_dot_product_attention`. For decoding word by word, self-attention
has a second entry point, `step`, that reads and fills a preallocated `KeyValueCache`; nothing in it depends on
Python numbers that change from word to word, so that a step can be captured as one CUDA graph.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class QuickGELU(nn.Module):
    """The sigmoid approximation of GELU that OpenAI's CLIP was trained with."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


def draw(parameter: Tensor, *, std: float) -> None:
    """Random normal weights, unless it is only a shape: on the meta device they would cost two seconds of imports."""
    if not parameter.is_meta:
        nn.init.normal_(parameter, std=std)


ACTIVATIONS: dict[str, type[nn.Module]] = {"quick_gelu": QuickGELU, "gelu": nn.GELU, "relu": nn.ReLU}


_FEW_ROWS = 8


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear`, reading the weights at the memory's speed also where a CPU has only a few rows to multiply.

    Word by word, decoding does little but read weights. MKL reads them on one core if they stand on the right
    of the product, and on all if they stand on the left of at least two columns: of two cores, CLIP's 49,408
    words take 2.6 ms in place of 9.
    """
    if torch.compiler.is_exporting():  # a graph is for any number of rows, and its runtime has its own ways
        # A list of rows becomes one Gemm that adds the bias and reads the weights as they are stored.
        result: Tensor = F.linear(x.flatten(0, -2), weight, bias).unflatten(0, x.shape[:-1])
        return result
    rows = x.numel() // x.shape[-1]
    if x.device.type != "cpu" or not 1 <= rows <= _FEW_ROWS or weight.dtype != torch.float32:
        return F.linear(x, weight, bias)
    columns = x.reshape(rows, -1).repeat(2 if rows == 1 else 1, 1).t()
    product = weight @ columns if bias is None else torch.addmm(bias[:, None], weight, columns)
    return product[:, :rows].t().reshape(*x.shape[:-1], -1)


class Linear(nn.Linear):
    """A linear layer that is also fast for a single row."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class KeyValueCache:
    """Keys and values of the words so far, of one layer, allocated once for the longest sentence."""

    def __init__(self, rows: int, heads: int, words: int, head_width: int, *, like: Tensor) -> None:
        self.keys = like.new_zeros(rows, heads, words, head_width)
        self.values = like.new_zeros(rows, heads, words, head_width)

    def write(self, keys: Tensor, values: Tensor, position: Tensor) -> None:
        """Put one word's keys and values (rows, heads, 1, head width) at `position`, a tensor of one number."""
        self.keys.index_copy_(2, position, keys.to(self.keys.dtype))
        self.values.index_copy_(2, position, values.to(self.values.dtype))

    def select(self, rows: Tensor) -> None:
        """Keep the history of `rows`, in that order (beam search); in place, the memory stays where it is."""
        self.keys.copy_(self.keys[rows])
        self.values.copy_(self.values[rows])


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(rows, tokens, width) -> (rows, heads, tokens, head width)."""
    result: Tensor = x.unflatten(-1, (heads, -1)).transpose(1, 2)
    return result


def join_heads(x: Tensor) -> Tensor:
    """(rows, heads, tokens, head width) -> (rows, tokens, width)."""
    return x.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence over itself."""

    def __init__(self, *, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query_key_value = Linear(width, 3 * width)
        self.output = Linear(width, width)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, values = self.query_key_value(x).chunk(3, dim=-1)
        return split_heads(queries, self.heads), split_heads(keys, self.heads), split_heads(values, self.heads)

    def forward(self, x: Tensor, *, causal: bool = False, mask: Tensor | None = None) -> Tensor:
        """`mask`, broadcast to (rows, heads, tokens, tokens), is True where a token may look."""
        queries, keys, values = self._project(x)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        result: Tensor = self.output(join_heads(mixed))
        return result

    def step(self, x: Tensor, cache: KeyValueCache, position: Tensor, seen: Tensor | None) -> Tensor:
        """One more word (rows, 1, width); `seen` (1, 1, 1, words) is True up to `position`; None: everywhere."""
        queries, keys, values = self._project(x)
        cache.write(keys, values, position)
        keys, values = cache.keys.to(queries.dtype), cache.values.to(queries.dtype)
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)
        result: Tensor = self.output(join_heads(mixed))
        return result

    def weights(self, x: Tensor, queries: list[int], mask: Tensor | None = None) -> Tensor:
        """Attention of the tokens `queries` over all tokens: (rows, heads, queries, tokens).

        The normal path never forms these; heat maps ask for a few rows of one block. `mask` as in `forward`.
        """
        asked, keys, _ = self._project(x)
        scores = asked[:, :, queries] @ keys.transpose(-2, -1) * keys.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[..., queries, :], float("-inf"))
        result: Tensor = scores.float().softmax(dim=-1)
        return result


class CrossAttention(nn.Module):
    """Multi-head attention of words over visual tokens; keys and values can be computed once an image pair."""

    def __init__(self, *, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = Linear(width, width)
        self.key_value = Linear(width, 2 * width)
        self.output = Linear(width, width)

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """(pairs, tokens, width) -> two of (pairs, heads, tokens, head width)."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        return split_heads(keys, self.heads), split_heads(values, self.heads)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """`x` may hold several rows a pair (beams, next to each other): they share the pair's keys and values."""
        rows, words, width = x.shape
        # Words of all beams of a pair become one list of queries: nothing is causal about the images.
        queries = split_heads(self.query(x).reshape(len(keys), -1, width), self.heads)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout)
        result: Tensor = self.output(join_heads(mixed).reshape(rows, words, width))
        return result


class FeedForward(nn.Module):
    """Two linear layers, each word or patch alone."""

    def __init__(self, *, width: int, hidden: int, activation: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = Linear(width, hidden)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = nn.Dropout(dropout)
        self.outer = Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.outer(self.dropout(self.activation(self.inner(x))))
        return result


class PreNormBlock(nn.Module):
    """CLIP's residual block, in both of its towers."""

    def __init__(self, *, width: int, heads: int, activation: str, mlp_ratio: int = 4, eps: float = 1e-5) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, eps=eps)
        self.attention = SelfAttention(width=width, heads=heads)
        self.feed_forward_norm = nn.LayerNorm(width, eps=eps)
        self.feed_forward = FeedForward(width=width, hidden=mlp_ratio * width, activation=activation)

    def forward(self, x: Tensor, *, causal: bool = False) -> Tensor:
        x = x + self.attention(self.attention_norm(x), causal=causal)
        result: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return result

    def step(self, x: Tensor, cache: KeyValueCache, position: Tensor, seen: Tensor) -> Tensor:
        """One more word of a causal sequence."""
        x = x + self.attention.step(self.attention_norm(x), cache, position, seen)
        result: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return result

    def attention_of(self, x: Tensor, queries: list[int]) -> Tensor:
        """Attention weights of some tokens, given the block's input: (rows, heads, queries, tokens)."""
        return self.attention.weights(self.attention_norm(x), queries)


class PostNormBlock(nn.Module):
    """BERT's block; with `cross=True` it also reads a memory (a decoder block).

    The tiny epsilon, the erf GELU and the norm after each residual sum are those of the published captioner.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        dropout: float,
        inner: int | None = None,
        cross: bool = False,
        eps: float = 1e-12,
    ) -> None:
        super().__init__()
        self.attention = SelfAttention(width=width, heads=heads, dropout=dropout)
        self.attention_norm = nn.LayerNorm(width, eps=eps)
        self.cross = CrossAttention(width=width, heads=heads, dropout=dropout) if cross else None
        self.cross_norm = nn.LayerNorm(width, eps=eps) if cross else None
        self.feed_forward = FeedForward(width=width, hidden=inner or 4 * width, activation="gelu")
        self.feed_forward_norm = nn.LayerNorm(width, eps=eps)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, *, causal: bool = False, memory: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x = self.attention_norm(x + self.dropout(self.attention(x, causal=causal, mask=mask)))
        visual = self.cross.keys_values(memory) if self.cross is not None and memory is not None else None
        return self._read_and_think(x, visual)

    def step(
        self, x: Tensor, cache: KeyValueCache, position: Tensor, seen: Tensor, visual: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """One more word; `visual` are the memory's keys and values from `cross.keys_values`."""
        x = self.attention_norm(x + self.attention.step(x, cache, position, seen))
        return self._read_and_think(x, visual)

    def attention_of(self, x: Tensor, queries: list[int], mask: Tensor | None = None) -> Tensor:
        """Attention weights of some tokens, given the block's input: (rows, heads, queries, tokens)."""
        return self.attention.weights(x, queries, mask)

    def _read_and_think(self, x: Tensor, visual: tuple[Tensor, Tensor] | None) -> Tensor:
        if self.cross is not None and self.cross_norm is not None and visual is not None:
            x = self.cross_norm(x + self.dropout(self.cross(x, *visual)))
        result: Tensor = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return result
