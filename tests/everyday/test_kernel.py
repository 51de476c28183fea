"""The Triton kernels against the steps they stand for: on a GPU, or read by Triton's interpreter."""

import os

import pytest
import torch

from spotchange.everyday.imaging import compositing
from spotchange.everyday.imaging.nuisances import grain_keys, noisy
from spotchange.everyday.sampling import draw_scenes

os.environ.setdefault("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")
pytest.importorskip("triton", reason="Triton comes with torch for CUDA only")


@pytest.mark.parametrize("changes", [1, 3])
def test_kernels_do_what_the_steps_do(library, changes):
    from spotchange.everyday.imaging.compositing_cuda import compose_in_one_pass, finish_in_one_pass

    scenes = draw_scenes(library, torch.arange(16), seed=5, changes=changes)
    order = scenes.things.bottom.argsort(dim=2, stable=True)
    things = scenes.things.in_order(order)
    level = compositing._levels(things, 48)
    target = scenes.changing[:, None].expand(-1, 2, -1).gather(2, order).float()
    arguments = (library, scenes, things, order, level, target)
    expected = compositing.compose_step_by_step(*arguments, side=48)
    for one, other in zip(expected, compose_in_one_pass(*arguments, side=48), strict=True):
        assert torch.allclose(one.float(), other.float(), atol=1e-4)
    pixels, keys = expected[0].flatten(0, 1), grain_keys(scenes.numbers, scenes.seed)
    amount = scenes.looks.noise.flatten()
    assert torch.equal(noisy(pixels, amount, keys), finish_in_one_pass(pixels, amount, keys))


@pytest.mark.gpu
def test_the_same_scene_on_both_devices(library_folder):
    from spotchange.everyday.library import read_library

    images = []
    for device in ("cpu", "cuda"):
        library = read_library(library_folder, device=device)
        images.append(
            compositing.compose(library, draw_scenes(library, torch.arange(32), seed=5), side=96).pixels.cpu()
        )
    apart = (images[0].int() - images[1].int()).abs()
    assert apart.float().mean() < 0.5
    assert (apart > 8).float().mean() < 0.002
