"""Counts objects per patch on a CUDA device, one thread a patch; imported only for pictures that lie there."""

from __future__ import annotations

import torch
from numba import cuda

from spotchange.kernels.compile import cached_kernel
from spotchange.scenes.patch_labels import count_patch

THREADS = 64


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
        _count[-(-patches // THREADS), THREADS, stream](views[0], columns, size, views[1])
