"""How fast scenes are drawn, beside Blender Cycles on this machine's CPU and alone on a CUDA device.

    python benchmarks/render_speed.py [--scenes 4] [--samples 24]

The Blender half needs the `bpy` package from PyPI (no dependency of this project); it builds the same scenes from its
own primitives with the same lamps and comparable materials and leaves denoising out, which favours Blender.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from functools import partial
from typing import Any

import numpy as np

from spotchange.config.scenes import SceneSettings
from spotchange.scene import BEFORE, COLOR, MATERIAL, SHAPE, SIZE, SceneBatch
from spotchange.scenes.rendering.frame import PALETTE
from spotchange.scenes.rendering.lights import LAMPS
from spotchange.scenes.rendering.renderer import QUALITIES, render
from spotchange.scenes.sampler import World

WIDTH, HEIGHT = 480, 320
BLENDER = "Blender Cycles"


def our_seconds(batch: SceneBatch, scene: int, quality: str) -> float:
    """One image by our renderer on the CPU, all its tables included."""
    start = time.perf_counter()
    render(batch[scene : scene + 1], width=WIDTH, height=HEIGHT, quality=quality, views=(BEFORE,))
    return time.perf_counter() - start


def images_per_second(quality: str, scenes: int, repeats: int = 5) -> float:
    """Ours on a CUDA device, three images a scene at 224 x 224, scenes given."""
    import torch

    batch = World(SceneSettings(), seed=0, device="cuda").scenes(np.arange(scenes))
    for timed in (1, repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(timed):
            render(batch, width=224, height=224, quality=quality)
        torch.cuda.synchronize()
    return repeats * scenes * 3 / (time.perf_counter() - start)


def material(bpy: Any, rgb: Any, metal: bool) -> Any:
    """Two glossy lobes for metal; diffuse under a glossy film for rubber."""
    made = bpy.data.materials.new("surface")
    made.use_nodes = True
    tree = made.node_tree
    tree.nodes.clear()
    color = (*(float(value) for value in rgb), 1.0)

    def glossy(roughness: float, tint: tuple[float, ...]) -> Any:
        node = tree.nodes.new("ShaderNodeBsdfAnisotropic")
        node.inputs["Roughness"].default_value = roughness
        node.inputs["Color"].default_value = tint
        return node

    mix = tree.nodes.new("ShaderNodeMixShader")
    if metal:
        first, second = glossy(0.447, color), glossy(0.1, color)
        mix.inputs[0].default_value = 0.6
    else:
        first, second = tree.nodes.new("ShaderNodeBsdfDiffuse"), glossy(0.59, (0.8, 0.8, 0.8, 1.0))
        first.inputs["Color"].default_value = color
        fresnel = tree.nodes.new("ShaderNodeFresnel")
        fresnel.inputs["IOR"].default_value = 1.2
        tree.links.new(fresnel.outputs[0], mix.inputs[0])
    tree.links.new(first.outputs[0], mix.inputs[1])
    tree.links.new(second.outputs[0], mix.inputs[2])
    tree.links.new(mix.outputs[0], tree.nodes.new("ShaderNodeOutputMaterial").inputs[0])
    return made


def add_objects(bpy: Any, batch: SceneBatch, scene: int) -> None:
    """The ground and the objects of one scene."""
    bpy.ops.mesh.primitive_plane_add(size=60)
    bpy.context.object.data.materials.append(material(bpy, (0.8, 0.8, 0.8), False))
    for slot in range(int(batch.count[scene, 0])):
        attributes = batch.attributes[scene, 0, slot]
        x, y, theta = (float(value) for value in batch.placement[scene, 0, slot])
        half = 0.7 if attributes[SIZE] == 0 else 0.35
        place = {"location": (x, y, half), "rotation": (0, 0, theta)}
        if attributes[SHAPE] == 0:
            bpy.ops.mesh.primitive_cube_add(size=2 * half, **place)
        elif attributes[SHAPE] == 1:
            bpy.ops.mesh.primitive_uv_sphere_add(radius=half, segments=64, ring_count=32, **place)
            bpy.ops.object.shade_smooth()
        else:
            bpy.ops.mesh.primitive_cylinder_add(radius=half, depth=2 * half, vertices=64, **place)
        thing = bpy.context.object
        if attributes[SHAPE] != 1:
            bevel = thing.modifiers.new("rounded", "BEVEL")
            bevel.width, bevel.segments = (0.2 if attributes[SHAPE] == 0 else 0.07) * half, 4
        thing.data.materials.append(material(bpy, PALETTE[attributes[COLOR]], attributes[MATERIAL] == 1))


def add_lights(bpy: Any, batch: SceneBatch, scene: int) -> None:
    """Three area lamps that face the origin, and the sun."""
    from mathutils import Vector

    for lamp, offset in zip(LAMPS, batch.lamps[scene], strict=True):
        place = Vector([float(a + b) for a, b in zip(lamp[:3], offset, strict=True)])
        bpy.ops.object.light_add(type="AREA", location=place)
        light = bpy.context.object
        light.rotation_euler = (-place).to_track_quat("-Z", "Y").to_euler()
        light.data.size, light.data.energy = float(lamp[3]), float(lamp[4])
        light.data.color = [float(value) for value in lamp[5:8]]
    bpy.ops.object.light_add(type="SUN")
    sun = bpy.context.object
    sun.rotation_euler = Vector((-0.414, 0.195, -0.889)).to_track_quat("-Z", "Y").to_euler()
    sun.data.energy, sun.data.angle = 0.45, 0.199


def blender_seconds(bpy: Any, batch: SceneBatch, scene: int, samples: int) -> float:
    """One image by Cycles on the CPU, building the scene not counted."""
    from mathutils import Vector

    bpy.ops.wm.read_factory_settings(use_empty=True)
    add_objects(bpy, batch, scene)
    add_lights(bpy, batch, scene)
    place = Vector([float(value) for value in batch.camera[scene, BEFORE]])
    bpy.ops.object.camera_add(location=place, rotation=(-place).to_track_quat("-Z", "Y").to_euler())
    settings = bpy.context.scene
    settings.camera = bpy.context.object
    settings.camera.data.lens, settings.camera.data.sensor_width = 35, 32
    settings.render.engine = "CYCLES"
    settings.cycles.device, settings.cycles.samples = "CPU", samples
    settings.cycles.use_denoising = settings.cycles.use_adaptive_sampling = False
    settings.cycles.diffuse_bounces = settings.cycles.glossy_bounces = settings.cycles.max_bounces = 4
    settings.render.resolution_x, settings.render.resolution_y = WIDTH, HEIGHT
    settings.render.resolution_percentage = 100
    settings.render.filepath = os.path.join(tempfile.gettempdir(), "render_speed.png")
    start = time.perf_counter()
    bpy.ops.render.render(write_still=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=4)
    parser.add_argument("--samples", type=int, default=24, help="of Blender, a pixel")
    parser.add_argument("--cuda-scenes", type=int, default=256, help="drawn at a time on a CUDA device")
    arguments = parser.parse_args()
    batch = World(SceneSettings(), seed=0).scenes(np.arange(arguments.scenes))
    timers = {f"ours, {quality}": partial(our_seconds, batch, quality=quality) for quality in QUALITIES}
    try:
        import bpy
    except ImportError:
        print("Blender: skipped, the package bpy is not installed")
    else:
        blender_seconds(bpy, batch, 0, 1)  # loads Cycles
        timers[BLENDER] = partial(blender_seconds, bpy, batch, samples=arguments.samples)
    our_seconds(batch, 0, "fast")  # compiles
    # Taken in turns, so that whatever else the machine does slows all of them.
    seconds = {name: [] for name in timers}
    for scene in range(arguments.scenes):
        for name, timer in timers.items():
            seconds[name].append(timer(scene=scene))
    means = {name: statistics.fmean(values) for name, values in seconds.items()}
    print(f"seconds a picture of {WIDTH}x{HEIGHT}, {os.cpu_count()} cores, {arguments.scenes} scenes")
    for name, mean in means.items():
        ratio = f"  {means[BLENDER] / mean:6.1f} times as fast as Blender" if BLENDER in means else ""
        print(f"{name:24} {mean:7.3f}{ratio}")
    import torch

    if not torch.cuda.is_available():
        print("CUDA: skipped, no device")
        return
    for quality in QUALITIES:
        speed = images_per_second(quality, arguments.cuda_scenes)
        print(
            f"{torch.cuda.get_device_name()}, {quality}: {speed:.0f} pictures/s of 224x224, {speed * 2 / 3:.0f} pairs/s"
        )


if __name__ == "__main__":
    main()
