"""Truth per patch, against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spotchange.config.scenes import SceneSettings
from spotchange.scene import SHAPE
from spotchange.scenes.changes import as_tensors
from spotchange.scenes.patch_labels import LEAST_SHARE, patch_shares, patch_truth
from spotchange.scenes.sampler import World


def test_shares_are_pixels_counted_patch_by_patch() -> None:
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, 12, (2, 10, 14), dtype=np.uint8))
    shares = patch_shares(ids, (3, 4))  # patches of 4 x 4 pixels, the last ones cut off
    assert shares.shape == (2, 12, 11)
    for row in range(3):
        for column in range(4):
            patch = ids[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            for slot in range(11):
                expected = (patch == slot + 1).flatten(1).sum(1) / 16
                assert torch.equal(shares[:, 4 * row + column, slot], expected)


def test_the_largest_object_of_a_patch_gives_its_attributes() -> None:
    scenes = World(SceneSettings(changes=("color",)), seed=2).draw(np.arange(1), np.zeros(1, np.int32))[0]
    target = int(scenes.target[0, 0])
    other = next(slot for slot in np.flatnonzero(scenes.attributes[0, 0, :, SHAPE] >= 0) if slot != target)
    ids = torch.zeros((1, 3, 8, 16), dtype=torch.uint8)
    ids[..., 0:8, 0:3] = target + 1  # three columns of the left patch
    ids[..., 0:8, 3:8] = other + 1
    ids[..., 0:1, 8:10] = target + 1  # 2 of the 64 pixels of the right patch: below a sixteenth
    attributes, changed = patch_truth(as_tensors(scenes), ids, (1, 2))
    assert LEAST_SHARE > 2 / 64
    assert attributes.shape == (2, 2, 2, 4)
    assert (attributes[:, :, 0].numpy() == scenes.attributes[0, 0, other]).all()
    assert (attributes[:, :, 1] == -1).all()
    assert changed.tolist() == [[[True, False]] * 2, [[False, False]] * 2]


def test_a_small_changed_object_is_never_lost() -> None:
    scenes = World(SceneSettings(changes=("drop",)), seed=2).draw(np.arange(1), np.zeros(1, np.int32))[0]
    ids = torch.zeros((1, 3, 8, 16), dtype=torch.uint8)
    ids[0, 0, 0, 9] = int(scenes.target[0, 0]) + 1
    _, changed = patch_truth(as_tensors(scenes), ids, (1, 2))
    assert changed.tolist() == [[[False, True], [False, False]], [[False, False]] * 2]


@pytest.mark.gpu
def test_a_gpu_counts_what_the_cpu_counts() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, 12, (5, 3, 30, 46), dtype=np.uint8))
    assert torch.equal(patch_shares(ids.cuda(), (7, 7)).cpu(), patch_shares(ids, (7, 7)))
