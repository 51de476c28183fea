"""The renderer: what it draws, and that an image hangs on its scene alone."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spotchange.errors import ConfigError
from spotchange.scene import AFTER, BEFORE, COLORS, MATERIALS, MAX_OBJECTS, SAME, SHAPES, SIZES, SceneBatch
from spotchange.scenes import appearance
from spotchange.scenes.rendering import cpu as render_cpu
from spotchange.scenes.rendering import renderer as renderer
from spotchange.scenes.rendering.renderer import render, visible_pixels

WIDTH, HEIGHT = 96, 64


def scene(*things: tuple[str, str, str, str, float, float], scene_id: int = 7, after: tuple = ()) -> SceneBatch:
    """One scene of (color, shape, material, size, x, y) objects; `after` where they differ."""
    attributes = np.full((1, 2, MAX_OBJECTS, 4), -1, np.int8)
    placement = np.zeros((1, 2, MAX_OBJECTS, 3), np.float32)
    versions = (things, after or things)
    for version, objects in enumerate(versions):
        for slot, (color, shape, material, size, x, y) in enumerate(objects):
            attributes[0, version, slot] = (
                COLORS.index(color),
                SHAPES.index(shape),
                MATERIALS.index(material),
                SIZES.index(size),
            )
            placement[0, version, slot] = (x, y, 0.4)
    return SceneBatch(
        scene_id=np.array([scene_id], np.int64),
        count=np.array([[len(objects) for objects in versions]], np.int32),
        attributes=attributes,
        placement=placement,
        camera=np.array([[[7.48, -6.51, 5.34], [7.0, -6.0, 6.0], [8.0, -7.0, 5.0]]], np.float32),
        lamps=np.zeros((1, 3, 3), np.float32),
        look=appearance.neutral(1),
        change=np.ones(1, np.int8),
        target=np.zeros((1, 2), np.int8),
    )


def joined(*scenes: SceneBatch) -> SceneBatch:
    return SceneBatch(**{name: np.concatenate([getattr(s, name) for s in scenes]) for name in vars(scenes[0])})


def draw(batch: SceneBatch, quality: str = "fast", views: tuple[int, ...] = (BEFORE,), **size: int) -> object:
    return render(batch, quality=quality, views=views, **({"width": WIDTH, "height": HEIGHT} | size))


SPHERE = ("red", "sphere", "rubber", "large", 0.0, 0.0)
CUBE = ("blue", "cube", "metal", "large", 1.5, 1.5)
CYLINDER = ("green", "cylinder", "metal", "small", -1.5, -1.0)


def test_same_scene_same_bytes_in_any_batch():
    one, other = scene(SPHERE, CUBE), scene(CYLINDER, SPHERE, scene_id=2**40 + 3)
    together = draw(joined(one, other), views=(BEFORE, AFTER))
    alone = draw(other, views=(BEFORE, AFTER))
    assert np.array_equal(together.images[1], alone.images[0])
    assert np.array_equal(together.ids[1], alone.ids[0])
    assert np.array_equal(draw(one).images[0], together.images[0, :1])


def test_noise_differs_between_scenes_but_light_does_not():
    first, second = draw(scene(CUBE, scene_id=1)).images[0, 0], draw(scene(CUBE, scene_id=2)).images[0, 0]
    assert not np.array_equal(first, second)
    assert abs(first.mean() - second.mean()) < 0.5


def test_sphere_falls_on_the_ellipse_geometry_says():
    ids = draw(scene(SPHERE), width=240, height=160).ids[0, 0]
    camera = np.array([7.48, -6.51, 5.34])
    forward = -camera / np.linalg.norm(camera)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    rows, columns = np.mgrid[0:160, 0:240] + 0.5
    a, b = (columns / 120 - 1) * 16 / 35, (1 - rows / 80) * 16 / 35 * 2 / 3
    rays = forward + a[..., None] * right + b[..., None] * up
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    to_centre = np.array([0, 0, 0.7]) - camera
    missed_by = np.linalg.norm(to_centre - (rays @ to_centre)[..., None] * rays, axis=-1)
    assert np.array_equal(ids == 1, missed_by < 0.7)


def test_ids_name_slots_and_nearer_objects_hide():
    behind = ("gray", "cube", "rubber", "small", -1.5, 1.3)
    in_front = ("red", "sphere", "rubber", "large", 0.0, 0.0)
    batch = scene(behind, in_front)
    batch = replace(batch, camera=np.broadcast_to(np.float32([7.48, -6.51, 1.0]), (1, 3, 3)).copy())
    ids = render(batch, width=WIDTH, height=HEIGHT, views=(BEFORE,), quality="fast").ids[0, 0]
    alone = render(scene(behind), width=WIDTH, height=HEIGHT, views=(BEFORE,), quality="fast").ids[0, 0]
    assert (ids == 2).sum() > 100
    assert (ids == 1).sum() < (alone == 1).sum()


def test_empty_slots_are_skipped_and_images_follow_their_version_and_camera():
    batch = scene(SPHERE, CUBE)
    batch.attributes[0, 1, 0] = -1  # the sphere is dropped
    ids = draw(batch, views=(BEFORE, AFTER, SAME)).ids[0]
    assert set(np.unique(ids[0])) == {0, 1, 2}
    assert set(np.unique(ids[1])) == {0, 2}
    assert set(np.unique(ids[2])) == {0, 1, 2}
    assert not np.array_equal(ids[0], ids[2])


def test_visible_pixels_count_the_id_image():
    batch = joined(scene(SPHERE, CUBE, CYLINDER), scene(CUBE))
    pixels = visible_pixels(batch, width=WIDTH, height=HEIGHT)
    ids = render(batch, width=WIDTH, height=HEIGHT, quality="fast").ids
    expected = np.stack([(ids == slot + 1).sum((-1, -2)) for slot in range(MAX_OBJECTS)], -1)
    assert pixels.dtype == np.int32
    assert np.array_equal(pixels, expected)
    assert pixels[1, 0, 0] > 0
    bounded = visible_pixels(batch, width=WIDTH, height=HEIGHT, enough=20)
    assert np.array_equal(bounded, np.minimum(expected, 20))


def test_a_camera_close_to_an_object_still_counts_every_pixel():
    batch = scene(SPHERE, CUBE)
    batch = replace(batch, camera=np.float32([[[0.9, -0.2, 1.0], [0.1, 0.1, 1.5], [1.5, 1.5, 3.0]]]))
    ids = render(batch, width=WIDTH, height=HEIGHT, quality="fast").ids
    expected = np.stack([(ids == slot + 1).sum((-1, -2)) for slot in range(MAX_OBJECTS)], -1)
    assert np.array_equal(visible_pixels(batch, width=WIDTH, height=HEIGHT), expected)


def test_squashed_image_shows_the_same_view():
    wide = render(scene(SPHERE, CUBE), width=240, height=160, views=(BEFORE,), quality="fast").ids[0, 0]
    squashed = render(scene(SPHERE, CUBE), width=160, height=160, views=(BEFORE,), quality="fast").ids[0, 0]
    shares = [[(ids == k).mean() for k in (1, 2)] for ids in (wide, squashed)]
    assert shares[0] == pytest.approx(shares[1], rel=0.03)


def mean_color(batch: SceneBatch, quality: str = "fast") -> np.ndarray:
    drawn = draw(batch, quality)
    return drawn.images[0, 0][:, drawn.ids[0, 0] == 1].mean(1)


@pytest.mark.parametrize("shape", SHAPES)
def test_colours_show_on_both_materials(shape):
    for material in MATERIALS:
        red = mean_color(scene(("red", shape, material, "large", 0.0, 0.0)))
        cyan = mean_color(scene(("cyan", shape, material, "large", 0.0, 0.0)))
        assert red[0] > 1.5 * red[1]
        assert cyan[1] > 1.5 * cyan[0]


def test_metal_mirrors_a_black_sky_on_top_and_a_bright_ground_on_its_sides():
    drawn = {
        material: draw(scene(("gray", "cube", material, "large", 0.0, 0.0)), width=240, height=160)
        for material in MATERIALS
    }
    mask = drawn["metal"].ids[0, 0] == 1
    rows = np.nonzero(mask.any(1))[0]
    top, side = rows[0] + len(rows) // 6, rows[-1] - len(rows) // 4
    levels = {m: [d.images[0, 0][:, row, mask[row]].mean() for row in (top, side)] for m, d in drawn.items()}
    assert levels["metal"][0] < 0.85 * levels["metal"][1]
    assert levels["rubber"][0] > levels["rubber"][1]


def test_metal_shows_its_neighbour():
    metal, neighbour = ("gray", "sphere", "metal", "large", 0.0, 0.0), ("yellow", "cube", "rubber", "large", 0.3, -1.7)
    plain, beside = draw(scene(metal)), draw(scene(metal, neighbour))
    both = (plain.ids[0, 0] == 1) & (beside.ids[0, 0] == 1)
    red, _, blue = beside.images[0, 0].astype(int) - plain.images[0, 0]
    assert ((red - blue)[both] > 10).sum() >= 8


def test_objects_cast_shadows_and_ground_nearby_darkens():
    bare, with_cube = (draw(s, "faithful").images[0, 0].astype(float) for s in (scene(), scene(CUBE)))
    ids = draw(scene(CUBE)).ids[0, 0]
    darker = (bare - with_cube).mean(0)[ids == 0]
    assert (darker > 8).sum() > 50
    assert (darker < -6).sum() == 0


def test_fast_and_faithful_agree():
    batch = scene(SPHERE, CUBE, CYLINDER)
    fast, faithful = draw(batch, "fast").images.astype(float), draw(batch, "faithful").images.astype(float)
    assert np.abs(fast - faithful).mean() < 1.5


def test_look_changes_what_it_names():
    batch = scene(SPHERE)
    darker = replace(batch, look=batch.look.copy())
    darker.look[:, appearance.EXPOSURE] = 0.5
    reddish = replace(batch, look=batch.look.copy())
    reddish.look[:, appearance.GROUND_RED] = 1.0
    plain = draw(batch).images[0, 0].astype(float)
    assert draw(darker).images.mean() < 0.8 * plain.mean()
    gain = draw(reddish).images[0, 0].astype(float) - plain
    assert gain[0].mean() > 5
    assert abs(gain[1].mean()) < 0.5


def test_no_scenes_give_no_images():
    assert draw(scene(SPHERE)[:0]).images.shape == (0, 1, 3, HEIGHT, WIDTH)


@pytest.mark.parametrize(
    "wrong", [{"quality": "perfect"}, {"views": (3,)}, {"views": ()}, {"device": "tpu"}, {"width": 0}]
)
def test_impossible_requests_are_refused(wrong):
    with pytest.raises(ConfigError):
        render(scene(SPHERE), **({"width": 8, "height": 8} | wrong))


SIMULATED = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import test_render
from spotchange.scenes.rendering import cuda as render_cuda
render_cuda._view = lambda array: array
render_cuda._stream = lambda: 0
render_cuda._scratch = lambda shape, kind, like: np.zeros(shape, kind)
images, ids, pixels = test_render.draw_tiny(render_cuda)
np.savez(sys.argv[2], images=images, ids=ids, pixels=pixels)
"""


def draw_tiny(loops: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An image of 12 x 8 pixels by the loops of one device, on arrays of this machine."""
    effort = renderer.Quality(
        samples=8,
        bounces=1,
        broad_rays=1,
        shadow_cells=6,
        shadow_samples=4,
        bounced_cells=3,
        rays=4,
    )
    target = renderer._Target("cpu")
    target.loops = loops
    tables = target.tables(scene(SPHERE, CUBE, CYLINDER), effort)
    images, ids = np.zeros((1, 1, 3, 8, 12), np.uint8), np.zeros((1, 1, 8, 12), np.uint8)
    pixels = np.zeros((1, 1, MAX_OBJECTS), np.int32)
    loops.prepare(tables)
    loops.light(tables, effort.shadow_samples, effort.rays)
    loops.draw(tables, 0, effort.drawing(), images, ids)
    loops.count(tables, 0, (12, 8), 4, pixels)
    return images, ids, pixels


@pytest.mark.slow
def test_cuda_loops_draw_what_the_cpu_draws(tmp_path):
    """The CUDA kernels under numba's simulator, where every thread is plain Python, against the compiled CPU loops."""
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    here, out = os.path.dirname(os.path.abspath(__file__)), str(tmp_path / "tiny.npz")
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SIMULATED, here, out], check=True, env=environment, timeout=600
    )
    simulated = np.load(out)
    images, ids, pixels = draw_tiny(render_cpu)
    assert images.std() > 5
    assert (ids > 0).any()
    assert np.abs(images.astype(int) - simulated["images"].astype(int)).max() <= 2
    assert np.array_equal(ids, simulated["ids"])
    assert np.array_equal(pixels, simulated["pixels"])


@pytest.mark.gpu
def test_cuda_device_draws_what_the_cpu_draws():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    batch = joined(scene(SPHERE, CUBE, CYLINDER), scene(CYLINDER, scene_id=9))
    for quality in ("fast", "faithful"):
        cpu = render(batch, width=WIDTH, height=HEIGHT, quality=quality)
        gpu = render(batch, width=WIDTH, height=HEIGHT, quality=quality, device="cuda")
        difference = np.abs(cpu.images.astype(int) - gpu.images.cpu().numpy().astype(int))
        assert (difference > 2).mean() < 0.002  # rays that graze an edge may fall to either side
        assert (cpu.ids != gpu.ids.cpu().numpy()).mean() < 0.001
