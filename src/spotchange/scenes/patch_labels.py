"""Labels per patch of an image, counted on the object-id images: what stands there, and whether it changed."""

from __future__ import annotations

import torch
from torch import Tensor

from spotchange.kernels.compile import cached_loop, lesser, shared
from spotchange.scene import AFTER, BEFORE, MAX_OBJECTS, SAME, SceneBatch

LEAST_SHARE = 1 / 16  # of a patch that an object must cover to count there


def patch_truth(scenes: SceneBatch, ids: Tensor, grid: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """What every patch of every pair shows.

    Args:
        scenes: As tensors.
        ids: uint8 (S, 3, H, W): slot + 1 of the object seen in the images before, after and same.
        grid: Rows and columns of patches. An image that does not divide evenly ends in smaller patches.

    Returns:
        The attributes of the object that covers most of a patch, int8 (2S, 2, patches, 4), -1 where none covers a
        sixteenth; and where the changed object is seen, bool (2S, 2, patches): patches of which it covers a
        sixteenth, and always the one of which it covers most. Rows are change and distractor in turn; the second
        axis is before and after.
    """
    shares = patch_shares(ids, grid)  # (S, 3, patches, slots)
    attributes = torch.stack(
        [_attributes(scenes, shares[:, view], version) for view, version in ((BEFORE, 0), (AFTER, 1), (SAME, 0))],
        1,
    )  # (S, 3, patches, 4)
    pairs = attributes[:, [BEFORE, AFTER, BEFORE, SAME]].unflatten(1, (2, 2)).flatten(0, 1)
    changed = torch.stack([_seen(scenes, shares[:, version], version) for version in (0, 1)], 1)
    mask = torch.stack([changed, torch.zeros_like(changed)], 1).flatten(0, 1)
    return pairs, mask


def patch_shares(ids: Tensor, grid: tuple[int, int]) -> Tensor:
    """Which share of each patch every object covers: float32 (..., patches, slots) for id images (..., H, W)."""
    rows, columns = grid
    images = ids.flatten(0, -3).contiguous()
    height, width = images.shape[1:]
    size = (-(-height // rows), -(-width // columns))
    counts = torch.zeros((len(images), rows * columns, MAX_OBJECTS), dtype=torch.int32, device=ids.device)
    if ids.is_cuda:
        from spotchange.scenes.launch_cuda import count_on_cuda

        count_on_cuda(images, columns, size, counts)
    else:
        _count_on_cpu(images.numpy(), columns, size, counts.numpy())
    result: Tensor = (counts / (size[0] * size[1])).unflatten(0, ids.shape[:-2])
    return result


@shared
def count_patch(ids, image, patch, columns, size, counts):
    """Pixels of one patch by object: runs along its rows, for neighbours are mostly of one object."""
    top, left = patch // columns * size[0], patch % columns * size[1]
    for row in range(top, lesser(top + size[0], ids.shape[1])):
        thing, run = 0, 0
        for column in range(left, lesser(left + size[1], ids.shape[2])):
            if ids[image, row, column] != thing:
                if thing > 0:
                    counts[image, patch, thing - 1] += run
                thing, run = int(ids[image, row, column]), 0
            run += 1
        if thing > 0:
            counts[image, patch, thing - 1] += run


@cached_loop
def _count_on_cpu(ids, columns, size, counts):
    for image in range(counts.shape[0]):
        for patch in range(counts.shape[1]):
            count_patch(ids, image, patch, columns, size, counts)


def _attributes(scenes: SceneBatch, shares: Tensor, version: int) -> Tensor:
    """int8 (S, patches, 4) of the object that covers most of each patch."""
    share, slot = shares.max(-1)  # (S, patches)
    found = scenes.attributes[:, version].gather(1, slot[..., None].expand(-1, -1, 4))
    return torch.where((share >= LEAST_SHARE)[..., None], found, torch.full_like(found, -1))


def _seen(scenes: SceneBatch, shares: Tensor, version: int) -> Tensor:
    """bool (S, patches): where the changed object is seen in one version."""
    slot = scenes.target[:, version].long()
    share = shares.gather(2, slot.clamp(min=0)[:, None, None].expand(-1, shares.shape[1], 1))[..., 0]
    most = share.max(1, keepdim=True).values
    result: Tensor = (slot >= 0)[:, None] & (share > 0) & ((share >= LEAST_SHARE) | (share == most))
    return result
