"""Random weights to start from: CLIP's scheme for pre-norm blocks, BERT's for everything else."""

from __future__ import annotations

from torch import nn

from spotchange.models.layers import PreNormBlock, draw


def initialise(model: nn.Module, *, any_width: bool = False) -> None:
    """Give every linear layer its weights; embeddings and positions gave themselves theirs.

    BERT's deviation is made for 768 inputs; `any_width` keeps what it does to a signal with fewer or more of them.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            draw(module.weight, std=0.02 * (768 / module.in_features) ** 0.5 if any_width else 0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    blocks = [module for module in model.modules() if isinstance(module, PreNormBlock)]
    for block in blocks:
        _initialise_block(block, depth=len(blocks))


def _initialise_block(block: PreNormBlock, depth: int) -> None:
    """Smaller weights where a branch joins the residual stream, so that depth does not blow it up."""
    width = block.attention.output.in_features
    branch_end = width**-0.5 * (2 * depth) ** -0.5
    draw(block.attention.query_key_value.weight, std=width**-0.5)
    draw(block.attention.output.weight, std=branch_end)
    draw(block.feed_forward.inner.weight, std=(2 * width) ** -0.5)
    draw(block.feed_forward.outer.weight, std=branch_end)
