"""Random changes of the images, on the device and for a whole batch at once, that leave every caption true.

Geometry hits both images of a pair alike and keeps the changed object in view; nothing is mirrored here, because
sentences say left and right (`symmetries.py` does it for images seen from above); hue stays, because they name
colours. Dense truth moves with the images.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.config.sources import AugmentSettings
from spotchange.pairs import PairBatch

_LUMA = (0.299, 0.587, 0.114)
_BLIND_CROP = 0.1  # where nobody knows what changed, at most a tenth of the area goes
_WHOLE = (0.0, 0.0, 1.0, 1.0)


def augment(batch: PairBatch, settings: AugmentSettings, *, grid: tuple[int, int]) -> PairBatch:
    """The same pairs as a camera on another day would show them; `grid` is the rows and columns of patches."""
    images = torch.stack([batch.before, batch.after], dim=1).float() / 255.0  # (N, 2, 3, H, W)
    kept, known = changed_box(batch, grid)
    if settings.crop:
        window = draw_window(kept, known, settings.crop)
        images = _resample(images, window)
        batch = _move_truth(batch, window, grid)
        kept, _ = changed_box(batch, grid)
    if settings.brightness or settings.contrast or settings.saturation or settings.hue:
        images = _photometry(images, settings)
    if settings.blur:
        images = _blur(images, settings.blur)
    if settings.erase and known:
        images = _erase(images, kept, settings.erase)
    if settings.noise:
        strength = settings.noise * torch.rand(*images.shape[:2], 1, 1, 1, device=images.device)
        images = images + strength * torch.randn_like(images)
    images = (images.clamp(0, 1) * 255.0).round().to(torch.uint8)
    return replace(batch, before=images[:, 0], after=images[:, 1])


def changed_box(batch: PairBatch, grid: tuple[int, int]) -> tuple[Tensor, bool]:
    """Left, top, right, bottom (N, 4; 0 to 1) around the change in both images, and whether it is known.

    A pair without change has an empty box in the middle: any window that is kept holds it.
    """
    if batch.change_mask is None:
        return torch.tensor(_WHOLE, device=batch.before.device).expand(len(batch), 4), False
    mask = batch.change_mask.any(dim=1).view(len(batch), *grid)
    edges = []
    for size, line in ((grid[1], mask.any(dim=1)), (grid[0], mask.any(dim=2))):  # columns, then rows
        places = torch.arange(size, device=mask.device)
        first = torch.where(line, places, size).amin(dim=1) / size
        last = (torch.where(line, places, -1).amax(dim=1) + 1) / size
        edges.append((first, last))
    box = torch.stack([edges[0][0], edges[1][0], edges[0][1], edges[1][1]], dim=1)
    changed = mask.flatten(1).any(dim=1, keepdim=True)
    return torch.where(changed, box, 0.5), True


def draw_window(kept: Tensor, known: bool, crop: float) -> Tensor:
    """A window (N, 4) of the image's own shape that holds `kept`, smaller by at most `crop` of the area.

    Where the place of the change is not known `kept` is the whole image: then only the blind limit holds.
    """
    pairs, device = len(kept), kept.device
    area = 1.0 - torch.rand(pairs, device=device) * (crop if known else min(crop, _BLIND_CROP))
    side = area.sqrt()
    if known:
        side = torch.maximum(side, torch.maximum(kept[:, 2] - kept[:, 0], kept[:, 3] - kept[:, 1]))
    starts = []
    for low, high in ((kept[:, 0], kept[:, 2]), (kept[:, 1], kept[:, 3])):
        earliest = (high - side).clamp(min=0) if known else torch.zeros_like(side)
        latest = torch.minimum(low, 1 - side) if known else 1 - side
        starts.append(earliest + torch.rand(pairs, device=device) * (latest - earliest).clamp(min=0))
    left, top = starts
    return torch.stack([left, top, left + side, top + side], dim=1)


def _sampling_grid(window: Tensor, size: tuple[int, int]) -> Tensor:
    """Where each cell of a (rows, columns) grid looks when the window fills it, in grid_sample's -1 to 1."""
    theta = torch.zeros(len(window), 2, 3, device=window.device)
    theta[:, 0, 0] = window[:, 2] - window[:, 0]
    theta[:, 1, 1] = window[:, 3] - window[:, 1]
    theta[:, 0, 2] = window[:, 0] + window[:, 2] - 1
    theta[:, 1, 2] = window[:, 1] + window[:, 3] - 1
    return F.affine_grid(theta, [len(window), 1, *size], align_corners=False)


def _resample(images: Tensor, window: Tensor) -> Tensor:
    where = _sampling_grid(window, (images.shape[-2], images.shape[-1]))
    flat = F.grid_sample(images.flatten(1, 2), where, mode="bilinear", padding_mode="border", align_corners=False)
    return flat.view_as(images)


def _move_truth(batch: PairBatch, window: Tensor, grid: tuple[int, int]) -> PairBatch:
    """Patch labels under the new window: each patch takes what its centre now shows."""
    where = _sampling_grid(window, grid)
    moved = {}
    if batch.patch_attributes is not None:
        planes = batch.patch_attributes.permute(0, 1, 3, 2).reshape(len(batch), 8, *grid).float()
        planes = F.grid_sample(planes, where, mode="nearest", padding_mode="border", align_corners=False)
        labels = planes.reshape(len(batch), 2, 4, -1).permute(0, 1, 3, 2)
        moved["patch_attributes"] = labels.round().to(batch.patch_attributes.dtype)
    if batch.change_mask is not None:
        planes = batch.change_mask.reshape(len(batch), 2, *grid).float()
        planes = F.grid_sample(planes, where, mode="nearest", padding_mode="border", align_corners=False)
        moved["change_mask"] = planes.flatten(2) > 0.5
    return replace(batch, **moved)


def _photometry(images: Tensor, settings: AugmentSettings) -> Tensor:
    def factor(strength: float) -> Tensor:
        shape = (*images.shape[:2], 1, 1, 1)
        common = (2 * torch.rand(shape[0], 1, 1, 1, 1, device=images.device) - 1).expand(shape)
        own = 2 * torch.rand(shape, device=images.device) - 1
        return 1 + strength * torch.lerp(common, own, settings.separate)

    luma = torch.tensor(_LUMA, device=images.device).view(1, 1, 3, 1, 1)
    images = images * factor(settings.brightness)
    average = (images * luma).sum(dim=2, keepdim=True).mean(dim=(-2, -1), keepdim=True)
    images = average + (images - average) * factor(settings.contrast)
    gray = (images * luma).sum(dim=2, keepdim=True)
    images = gray + (images - gray) * factor(settings.saturation)
    if settings.hue:
        turn = (2 * torch.rand(len(images), device=images.device) - 1) * settings.hue * 2 * math.pi
        images = torch.einsum("nij,npjhw->npihw", _hue_turn(turn), images)
    return images


def _hue_turn(angle: Tensor) -> Tensor:
    """Rotation of colours about the gray axis: (N, 3, 3)."""
    cosine, sine = angle.cos()[:, None, None], angle.sin()[:, None, None]
    third, root = 1.0 / 3.0, math.sqrt(1.0 / 3.0)
    eye = torch.eye(3, device=angle.device)
    cross = root * torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], device=angle.device)
    return cosine * eye + (1 - cosine) * third + sine * cross


def _blur(images: Tensor, probability: float) -> Tensor:
    """A 3x3 binomial filter for some pairs, mixed in by a random share."""
    kernel = torch.tensor([1.0, 2.0, 1.0], device=images.device)
    kernel = (kernel[:, None] * kernel[None, :] / 16).view(1, 1, 3, 3)
    flat = images.flatten(0, 2)[:, None]
    soft = F.conv2d(F.pad(flat, (1, 1, 1, 1), mode="replicate"), kernel)[:, 0].view_as(images)
    chance = torch.rand(2, len(images), 1, 1, 1, 1, device=images.device)
    return torch.lerp(images, soft, (chance[0] < probability) * chance[1])


def _erase(images: Tensor, kept: Tensor, probability: float) -> Tensor:
    """A gray rectangle of 2 to 15 % of the area where the change is not; pairs where it would touch are spared."""
    pairs, device = len(images), images.device
    draw = torch.rand(5, pairs, device=device)
    area, ratio = 0.02 + 0.13 * draw[0], torch.exp((2 * draw[1] - 1) * math.log(2.0))
    width, height = (area * ratio).sqrt(), (area / ratio).sqrt()
    left, top = draw[2] * (1 - width), draw[3] * (1 - height)
    clear = (left > kept[:, 2]) | (left + width < kept[:, 0]) | (top > kept[:, 3]) | (top + height < kept[:, 1])
    chosen = clear & (draw[4] < probability)
    rows = (torch.arange(images.shape[-2], device=device) + 0.5) / images.shape[-2]
    columns = (torch.arange(images.shape[-1], device=device) + 0.5) / images.shape[-1]
    inside_rows = (rows >= top[:, None]) & (rows < (top + height)[:, None])
    inside_columns = (columns >= left[:, None]) & (columns < (left + width)[:, None])
    hole = inside_rows[:, :, None] & inside_columns[:, None, :] & chosen[:, None, None]
    return images.masked_fill(hole[:, None, None], 0.5)
