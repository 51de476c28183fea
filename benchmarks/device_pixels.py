"""How far the images that a GPU draws lie from the CPU's, and whether both draw the same scenes.

python benchmarks/device_pixels.py --scenes 64

Scenes are sampled on both devices and compared number by number; then the CPU's are drawn on both.
"""

from __future__ import annotations

import argparse
from dataclasses import fields

import numpy as np
import torch

from spotchange.config.scenes import scene_preset
from spotchange.scene import SceneBatch
from spotchange.scenes.rendering.renderer import QUALITIES, render
from spotchange.scenes.sampler import World


def arrays(batch: SceneBatch) -> dict[str, np.ndarray]:
    """Every table of the scenes, on the host."""
    return {each.name: torch.as_tensor(getattr(batch, each.name)).cpu().numpy() for each in fields(batch)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=64)
    parser.add_argument("--size", default="480x320")
    parser.add_argument("--device", default="cuda", help="the other device")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    numbers = np.arange(options.scenes)
    here = World(scene_preset("clevr-change"), seed=3).scenes(numbers)
    there = World(scene_preset("clevr-change"), seed=3, device=options.device).scenes(numbers)
    for name, values in arrays(there).items():
        mine = arrays(here)[name]
        if np.issubdtype(mine.dtype, np.floating):
            print(f"scenes, {name}: largest difference {np.abs(mine - values).max():.2g}")
        else:
            print(f"scenes, {name}: {'equal' if np.array_equal(mine, values) else 'DIFFERENT'}")
    for quality in QUALITIES:
        cpu = render(here, width=width, height=height, quality=quality, device="cpu")
        gpu = render(here, width=width, height=height, quality=quality, device=options.device)
        drawn = torch.as_tensor(gpu.images).cpu().numpy()
        apart = np.abs(np.asarray(cpu.images).astype(int) - drawn.astype(int))
        images = apart.reshape(-1, 3 * width * height)
        ids = np.asarray(cpu.ids) != torch.as_tensor(gpu.ids).cpu().numpy()
        print(
            f"{quality} {options.size}, {len(images)} pictures: {100 * (apart > 2).mean():.5f} % of values differ by"
            f" more than 2 levels, largest {apart.max()}; equal {100 * (apart == 0).mean():.2f} %;"
            f" pictures with any such value {100 * (images > 2).any(1).mean():.0f} %;"
            f" ids differ {100 * ids.mean():.5f} %"
        )


if __name__ == "__main__":
    main()
