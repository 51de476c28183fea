"""Launches the sampler on a CUDA device, one thread a scene; imported only for worlds that live there."""

from __future__ import annotations

from typing import Any

import torch
from numba import cuda

from spotchange.kernels.compile import cached_kernel
from spotchange.scenes.sampler_kernel import sample_scene

THREADS = 32  # scenes differ much in work: small blocks let finished ones make room


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
        sample_kernel[(scenes + THREADS - 1) // THREADS, THREADS, stream](seed, limit, *views)
