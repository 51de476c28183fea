"""Where models look: CLIP4IDC's class tokens (its figures 3 to 5) and the words of IDC-PCL (its figure 7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from spotchange.drawing import figure, label
from spotchange.errors import ModelError
from spotchange.models.clip4idc import Clip4idc
from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import DecodingOptions

_WORD_HEIGHT = 150
_COLUMNS = 6  # words beside each other
_CELL_HEIGHT = 240
# From dark violet over red to pale yellow: lightness alone tells strong from weak, also in grey print.
_HEAT = np.array([(0, 0, 4), (87, 16, 110), (188, 55, 84), (249, 142, 9), (252, 255, 164)], dtype=np.float32)


@torch.inference_mode()
def attention_maps(model: nn.Module, before: Tensor, after: Tensor) -> dict[str, Tensor]:
    """Mean-of-heads attention of each class token over its own image's patches, by block.

    Args:
        before: one image (1, 3, height, width), preprocessed, like `after`.

    Returns:
        By "intra" and "inter", as far as the model has such blocks: (2, rows, columns), largest value 1.
    """
    if not isinstance(model, Clip4idc):
        raise ModelError("attention maps are made from CLIP4IDC and its relatives only")
    intra = list(getattr(model.encoder.backbone, "blocks", []))
    if not intra and not len(model.encoder.inter):
        raise ModelError("this model has no transformer block whose attention could be shown")
    read: dict[str, Tensor] = {}
    # Only this call pays for knowing what the last intra block reads.
    hooks = [block.register_forward_pre_hook(lambda _, inputs: read.update(intra=inputs[0])) for block in intra[-1:]]
    try:
        state = model.encode(before, after)
    finally:
        for hook in hooks:
            hook.remove()
    maps: dict[str, Tensor] = {}
    if intra:
        weights = intra[-1].attention_of(read["intra"], [0])  # (2, heads, 1, 1 + patches)
        maps["intra"] = weights.mean(dim=1)[:, 0, 1:].unflatten(-1, state.grid)
    if len(model.encoder.inter):
        maps["inter"] = model.class_attention(state)[0]
    return {name: each / each.amax(dim=(1, 2), keepdim=True) for name, each in maps.items()}


def attention_figure(
    before: Image.Image,
    after: Image.Image,
    maps: dict[str, Tensor],
    *,
    caption: str | None = None,
    references: Sequence[str] = (),
) -> Image.Image:
    """Rows before and after; columns image, last intra block, last inter block; sentences underneath."""
    size = (round(_CELL_HEIGHT * before.width / before.height), _CELL_HEIGHT)
    images = [image.resize(size, Image.Resampling.LANCZOS) for image in (before, after)]
    texts = [f"reference: {each}" for each in references] + ([f"caption: {caption}"] if caption is not None else [])
    named = [label(image, name) for image, name in zip(images, ("before", "after"), strict=True)]
    shown = [
        (f"last {name} block", [heated(image, heat) for image, heat in zip(images, both, strict=True)])
        for name, both in maps.items()
    ]
    return figure([("picture", named), *shown], texts)


def heated(image: Image.Image, heat: Tensor) -> Image.Image:
    """The image in grey under the colours of `heat` (rows, columns) in [0, 1]."""
    plane = Image.fromarray((heat.float().cpu().numpy() * 255).astype(np.uint8))
    level = np.asarray(plane.resize(image.size, Image.Resampling.BICUBIC), dtype=np.float32) / 255 * (len(_HEAT) - 1)
    low = np.clip(np.floor(level).astype(int), 0, len(_HEAT) - 2)
    colours = _HEAT[low] + (_HEAT[low + 1] - _HEAT[low]) * (level - low)[..., None]
    grey = np.asarray(image.convert("L"), dtype=np.float32)[..., None]
    return Image.fromarray(np.clip(0.4 * grey + 0.6 * colours, 0, 255).astype(np.uint8))


@torch.inference_mode()
def word_alignment(
    model: nn.Module, before: Tensor, after: Tensor, options: DecodingOptions | None = None
) -> tuple[list[int], Tensor]:
    """The caption's token ids for one pair, and for each token a map over both images.

    Args:
        model: An `IdcPcl`.
        before: One image (1, 3, height, width), preprocessed, like `after`.
        options: How the caption is found; default: greedily.

    Returns:
        Token ids without the end token, and attention of `F_cross` (words, 2, rows, columns), stretched for each word
        from 0 to 1: what matters is where it looks more than elsewhere.
    """
    if not isinstance(model, IdcPcl):
        raise ModelError("alignment images are made from idc-pcl only", hint="`models attention` shows CLIP4IDC's")
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
    """The images first, then a column for each word with its map over both; the caption underneath."""
    size = (round(_WORD_HEIGHT * before.width / before.height), _WORD_HEIGHT)
    images = [image.convert("RGB").resize(size) for image in (before, after)]
    shown = [
        (word, [heated(image, heat) for image, heat in zip(images, both, strict=True)])
        for word, both in zip(words, maps, strict=True)
    ]
    return figure([("pictures", images), *shown], [f"caption: {caption}"], across=_COLUMNS)
