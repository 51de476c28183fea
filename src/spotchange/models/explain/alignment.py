"""Which cells each word of a sentence comes from: IDC-PCL's figure 7, a column a word, before above after."""

from __future__ import annotations

import textwrap

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor, nn

from spotchange.errors import ModelError
from spotchange.models.explain.attention import heated
from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import DecodingOptions

_CELL_HEIGHT, _GAP, _BAND = 150, 6, 24
_COLUMNS = 6  # words beside each other
_INK, _PAPER = (28, 28, 30), (255, 255, 255)


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
    width = round(_CELL_HEIGHT * before.width / before.height)
    pictures = [picture.convert("RGB").resize((width, _CELL_HEIGHT)) for picture in (before, after)]
    columns = [("pictures", None), *zip(words, maps, strict=True)]
    across = min(_COLUMNS, len(columns))
    rows = -(-len(columns) // across)
    row_height = _BAND + 2 * (_CELL_HEIGHT + _GAP)
    full_width = across * (width + _GAP) + _GAP
    lines = textwrap.wrap(f"caption: {caption}", width=max(20, full_width // 8))
    sheet = Image.new("RGB", (full_width, rows * row_height + _BAND * len(lines) + _GAP), _PAPER)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=15)
    for number, (title, heat) in enumerate(columns):
        left, top = _GAP + number % across * (width + _GAP), number // across * row_height
        pen.text((left, top + 4), title, fill=_INK, font=font)
        for side, picture in enumerate(pictures):
            cell = picture if heat is None else heated(picture, heat[side])
            sheet.paste(cell, (left, top + _BAND + side * (_CELL_HEIGHT + _GAP)))
    for number, line in enumerate(lines):
        pen.text((_GAP, rows * row_height + number * _BAND), line, fill=_INK, font=font)
    return sheet
