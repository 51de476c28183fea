"""Launches the sampler and the counting of patch labels on a CUDA device; imported only for what lives there."""

from __future__ import annotations

from typing import Any

import torch
from numba import cuda

from spotchange.kernels.compile import cached_kernel
from spotchange.scenes.patch_labels import count_patch
from spotchange.scenes.sampler_kernel import sample_scene

PATCHES_A_BLOCK = 64
SCENES_A_BLOCK = 32  # scenes differ much in work: small blocks let finished ones make room


@cached_kernel()
def _count(ids, columns, size, counts):
    index = cuda.grid(1)
    image, patch = index // counts.shape[1], index % counts.shape[1]
    if image < counts.shape[0]:
        count_patch(ids, image, patch, columns, size, counts)


def count_on_cuda(ids: torch.Tensor, columns: int, size: tuple[int, int], counts: torch.Tensor) -> None:
    """Fill int32 counts (images, patches, MAX_OBJECTS) of zeros from uint8 ids (images, H, W)."""
    patches = counts.shape[0] * counts.shape[1]
    if patches:
        stream = cuda.external_stream(torch.cuda.current_stream(ids.device).cuda_stream)
        views = cuda.as_cuda_array(ids, sync=False), cuda.as_cuda_array(counts, sync=False)
        _count[-(-patches // PATCHES_A_BLOCK), PATCHES_A_BLOCK, stream](views[0], columns, size, views[1])


@cached_kernel()
def sample_kernel(
    seed, limit, rules, changes, attempts, scene_id, count, attributes, placement, camera, lamps, look, change, target
):
    """One thread a row."""
    s = cuda.grid(1)
    if s < scene_id.shape[0]:
        sample_scene(
            s, seed, limit, rules, changes, attempts, scene_id, count, attributes, placement, camera, lamps, look,
            change, target,
        )  # fmt: skip


def draw_on_cuda(seed: Any, limit: int, *tensors: torch.Tensor) -> None:
    """Queue the kernel on torch's current stream, so that it runs in order with torch's own work."""
    device = tensors[0].device
    scenes = len(tensors[3])
    with torch.cuda.device(device):
        stream = cuda.external_stream(torch.cuda.current_stream(device).cuda_stream)
        views = [cuda.as_cuda_array(tensor, sync=False) for tensor in tensors]
        sample_kernel[-(-scenes // SCENES_A_BLOCK), SCENES_A_BLOCK, stream](seed, limit, *views)
