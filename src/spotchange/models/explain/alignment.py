"""Which cells each word of a sentence comes from: IDC-PCL's figure 7, a column a word, before above after."""

from __future__ import annotations

import torch
from PIL import Image
from torch import Tensor, nn

from spotchange.drawing import figure
from spotchange.errors import ModelError
from spotchange.models.explain.attention import heated
from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import DecodingOptions

_CELL_HEIGHT = 150
_COLUMNS = 6  # words beside each other


@torch.inference_mode()
def word_alignment(
    model: nn.Module, before: Tensor, after: Tensor, options: DecodingOptions | None = None
) -> tuple[list[int], Tensor]:
    """The caption's token ids for one pair, and for each token a map over both pictures.

    Args:
        model: An `IdcPcl`.
        before: One picture (1, 3, height, width), preprocessed, like `after`.
        options: How the caption is found; default: greedily.

    Returns:
        Token ids without the end token, and attention of `F_cross` (words, 2, rows, columns), stretched for each word
        from 0 to 1: what matters is where it looks more than elsewhere.
    """
    if not isinstance(model, IdcPcl):
        raise ModelError("alignment pictures are made from idc-pcl only", hint="`models attention` shows CLIP4IDC's")
    state = model.encode(before, after)
    ids = model.generate(state, options or DecodingOptions()).ids[:1, 0]
    words = [word for word in ids[0].tolist() if word != model.special.pad]
    if not words:
        return [], torch.zeros(0, 2, *state.grid)
    begun = torch.tensor([[model.special.begin, *words]], device=ids.device)
    maps = model.word_attention(state, begun)[0]
    low, high = (each(maps, dim=(1, 2, 3), keepdim=True) for each in (torch.amin, torch.amax))
    return words, (maps - low) / (high - low).clamp_min(1e-12)


def alignment_figure(
    before: Image.Image, after: Image.Image, words: list[str], maps: Tensor, *, caption: str
) -> Image.Image:
    """The pictures first, then a column for each word with its map over both; the caption underneath."""
    size = (round(_CELL_HEIGHT * before.width / before.height), _CELL_HEIGHT)
    pictures = [picture.convert("RGB").resize(size) for picture in (before, after)]
    shown = [
        (word, [heated(picture, heat) for picture, heat in zip(pictures, both, strict=True)])
        for word, both in zip(words, maps, strict=True)
    ]
    return figure([("pictures", pictures), *shown], [f"caption: {caption}"], across=_COLUMNS)
