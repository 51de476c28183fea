"""The placement rules, the distributions and the independence of scenes, on thousands of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from spotchange.config.scenes import SPLIT_SCENES, SceneSettings, scene_preset
from spotchange.errors import ConfigError
from spotchange.pairs import ADD, CHANGE_TYPES, DROP, MOVE, RECOLOR, RETEXTURE
from spotchange.scene import AFTER, BEFORE, COLOR, MATERIAL, SAME, SHAPE, SIZE, SceneBatch
from spotchange.scenes import launch_cuda
from spotchange.scenes import sampler as world
from spotchange.scenes.rendering.renderer import visible_pixels
from spotchange.scenes.sampler import World

RADII = np.array([0.7, 0.35])
HOME = np.array([7.48, -6.51, 5.34])


def placed(settings: SceneSettings, scenes: int, seed: int = 3) -> SceneBatch:
    """Scenes that keep the placement rules, not yet judged by what is visible: quick, and enough for most rules."""
    return World(settings, seed=seed).draw(np.arange(scenes), np.zeros(scenes, np.int32))[0]


@pytest.fixture(scope="module")
def scenes() -> SceneBatch:
    return placed(scene_preset("clevr-change"), 4000)


@pytest.fixture(scope="module")
def accepted() -> SceneBatch:
    return World(scene_preset("clevr-change"), seed=5).scenes(np.arange(150))


def present(batch: SceneBatch) -> np.ndarray:
    return batch.attributes[..., SHAPE] >= 0  # (S, 2, slots)


def pairs_of_objects(batch: SceneBatch):
    """Offsets, sizes and cameras of every two objects that stand in one version of a scene."""
    here = present(batch)
    for version in (0, 1):
        both = here[:, version, :, None] & here[:, version, None, :]
        both &= np.triu(np.ones(both.shape[1:], bool), 1)
        s, i, j = np.nonzero(both)
        place = batch.placement[:, version, :, :2].astype(np.float64)
        size = batch.attributes[:, version, :, SIZE]
        yield place[s, i] - place[s, j], RADII[size[s, i]] + RADII[size[s, j]], batch.camera[s, BEFORE].astype(float)


def test_objects_keep_their_gap_and_margins_before_and_after(scenes: SceneBatch) -> None:
    for offset, reach, camera in pairs_of_objects(scenes):
        assert (np.hypot(*offset.T) - reach >= 0.25 - 1e-6).all()
        view = camera[:, :2] / np.linalg.norm(camera[:, :2], axis=1, keepdims=True)
        front = np.abs((offset * view).sum(1))
        left = np.abs(offset[:, 0] * view[:, 1] - offset[:, 1] * view[:, 0])
        assert front.min() >= 0.4 - 1e-6
        assert left.min() >= 0.4 - 1e-6
        assert min(front.min(), left.min()) < 0.41, "the rule is tight, or the test would prove nothing"


def test_places_fill_the_square_and_turns_the_circle(scenes: SceneBatch) -> None:
    place = scenes.placement[:, 0][present(scenes)[:, 0]]
    assert np.abs(place[:, :2]).max() <= 3.0
    assert (place[:, :2].min(0) < -2.99).all()
    assert (place[:, :2].max(0) > 2.99).all()
    assert place[:, 2].min() >= 0.0
    assert place[:, 2].max() < 2 * np.pi
    assert place[:, 2].mean() == pytest.approx(np.pi, abs=0.05)


def test_counts_changes_and_attributes_are_uniform(scenes: SceneBatch) -> None:
    def spread(counts: np.ndarray) -> float:
        expected = counts.sum() / len(counts)
        return float(np.abs(counts - expected).max() / np.sqrt(expected))

    assert spread(np.bincount(scenes.count[:, 0])[3:]) < 4
    assert len(np.bincount(scenes.count[:, 0])) == 11
    assert np.bincount(scenes.change).tolist() == [0, 800, 800, 800, 800, 800]
    assert len({tuple(five) for five in scenes.change.reshape(-1, 5).tolist()}) > 100, "in every order"
    attributes = scenes.attributes[:, 0][present(scenes)[:, 0]]
    for part, values in ((COLOR, 8), (SHAPE, 3), (MATERIAL, 2)):
        counts = np.bincount(attributes[:, part])
        assert len(counts) == values
        assert spread(counts) < 4.5


def test_cameras_and_lamps_move_as_the_benchmark_says(scenes: SceneBatch) -> None:
    first = scenes.camera[:, BEFORE] - HOME
    second = scenes.camera[:, AFTER] - scenes.camera[:, BEFORE]
    third = scenes.camera[:, SAME] - scenes.camera[:, BEFORE]
    lamps = scenes.lamps.transpose(1, 0, 2)
    for moves, reach in ((first, 2.0), (second, 2.0), (third, 2.0), *((lamp, 1.0) for lamp in lamps)):
        assert np.abs(moves).max() <= reach + 1e-5
        assert moves.std(0) == pytest.approx([reach * 3**-0.5] * 3, abs=0.03 * reach)  # that of U(-reach, reach)
        assert np.abs(moves.mean(0)).max() < 0.05 * reach
    assert abs(np.corrcoef(second[:, 0], third[:, 0])[0, 1]) < 0.06, "each picture has its own move"


def test_the_older_camera_goes_by_name() -> None:
    narrow = placed(scene_preset("clevr-change-narrow"), 500)
    assert 0.95 < np.abs(narrow.camera[:, BEFORE] - HOME).max() <= 1.0 + 1e-5
    assert 0.95 < np.abs(narrow.camera[:, SAME] - narrow.camera[:, BEFORE]).max() <= 1.0 + 1e-5


def test_each_change_changes_one_object_in_one_way(scenes: SceneBatch) -> None:
    rows = np.arange(len(scenes))
    kind = scenes.change
    same_attributes = (scenes.attributes[:, 0] == scenes.attributes[:, 1]).all(2)
    same_place = (scenes.placement[:, 0] == scenes.placement[:, 1]).all(2)
    differs = ~(same_attributes & same_place)
    slot = np.where(kind == ADD, scenes.target[:, 1], scenes.target[:, 0])
    assert (differs.sum(1) == 1).all()
    assert differs[rows, slot].all()
    before, after = scenes.attributes[rows, 0, slot], scenes.attributes[rows, 1, slot]
    changed = before != after
    assert changed[kind == RECOLOR].tolist() == [[True, False, False, False]] * (kind == RECOLOR).sum()
    assert changed[kind == RETEXTURE].tolist() == [[False, False, True, False]] * (kind == RETEXTURE).sum()
    assert not changed[kind == MOVE].any()
    assert (before[kind == ADD] == -1).all()
    assert (after[kind == DROP] == -1).all()
    assert (scenes.target[kind == ADD, 0] == -1).all()
    assert (scenes.target[kind == DROP, 1] == -1).all()
    way = scenes.placement[rows, 1, slot] - scenes.placement[rows, 0, slot]
    assert np.hypot(way[kind == MOVE, 0], way[kind == MOVE, 1]).min() >= 1.0
    assert (way[kind == MOVE, 2] == 0).all()
    last_used = np.where(present(scenes), np.arange(1, 12), 0).max(2)
    assert (scenes.count == last_used).all()


def test_a_new_colour_is_any_of_the_other_seven(scenes: SceneBatch) -> None:
    rows = np.flatnonzero(scenes.change == RECOLOR)
    slot = scenes.target[rows, 0]
    old, new = scenes.attributes[rows, 0, slot, COLOR], scenes.attributes[rows, 1, slot, COLOR]
    steps = np.bincount((new.astype(int) - old) % 8, minlength=8)
    assert steps[0] == 0
    assert steps[1:].min() > 0.6 * len(rows) / 7


def test_everything_needed_is_visible(accepted: SceneBatch) -> None:
    # Counted anew at four times the pixels: an object at the limit may differ by its outline, hence 5 %.
    pixels = visible_pixels(accepted, width=480, height=320, views=(BEFORE, AFTER))
    assert pixels[:, 0][present(accepted)[:, 0]].min() >= 0.95 * 400
    rows = np.flatnonzero(accepted.target[:, 1] >= 0)
    assert pixels[rows, 1, accepted.target[rows, 1]].min() >= 0.95 * 400


def test_rejection_keeps_counts_and_changes_uniform(accepted: SceneBatch) -> None:
    drawn = placed(scene_preset("clevr-change"), len(accepted), seed=5)
    assert (accepted.count[:, 0] == drawn.count[:, 0]).all()
    assert (accepted.change == drawn.change).all()


def test_a_scene_depends_on_its_seed_and_number_only(accepted: SceneBatch) -> None:
    again = World(scene_preset("clevr-change"), seed=5)
    alone = again.scenes([37])
    shuffled = again.scenes([90, 37, 2])
    for name in vars(accepted):
        expected = getattr(accepted, name)
        assert (getattr(alone, name)[0] == expected[37]).all(), name
        assert (getattr(shuffled, name) == expected[[90, 37, 2]]).all(), name
    assert (World(scene_preset("clevr-change"), seed=6).scenes([37]).camera != alone.camera).all()


def test_several_attempts_at_once_choose_the_same_scene(accepted: SceneBatch, monkeypatch: pytest.MonkeyPatch) -> None:
    # As a GPU draws them: one attempt a row, several rows a scene.
    monkeypatch.setattr(World, "_effort", lambda self, pending, scenes: (5, 1))
    together = World(scene_preset("clevr-change"), seed=5).scenes(np.arange(40))
    for name in vars(accepted):
        assert (getattr(together, name) == getattr(accepted, name)[:40]).all(), name


def test_the_harder_preset_goes_around_the_scene() -> None:
    batch = placed(scene_preset("clevr-dc"), 2000)
    angle = np.arctan2(batch.camera[..., 1], batch.camera[..., 0])
    turn = np.rad2deg(np.abs(angle[:, AFTER] - angle[:, BEFORE]))
    assert 20 < turn.mean() < 40
    assert 50 < turn.max() < 80


def test_looks_vary_only_when_asked() -> None:
    plain = World(scene_preset("clevr-change"), seed=5).scenes([0, 1])
    varied = World(scene_preset("clevr-change", look={"lamps": 1.0}), seed=5).scenes([0, 1])
    assert (plain.look[0] == plain.look[1]).all()
    assert (varied.look[0] != varied.look[1]).any()
    assert (varied.camera == plain.camera).all()


def test_splits_have_the_official_size_and_mix_of_changes(shared: Path) -> None:
    folder = shared / "data" / "annotations" / "clevr_change"
    splits = json.loads((folder / "splits.json").read_text())
    assert {split: len(numbers) for split, numbers in splits.items()} == SPLIT_SCENES
    views = json.loads((folder / "type_mapping.json").read_text())
    for split, numbers in splits.items():
        ours = np.bincount(placed(SceneSettings(), SPLIT_SCENES[split]).change, minlength=6)
        for name, files in views.items():
            official = len(set(numbers) & {int(file.partition(".")[0]) for file in files})
            kind = CHANGE_TYPES.index({"material": "texture"}.get(name, name))
            assert abs(int(ours[kind]) - official) <= 5, (split, name)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"max_objects": 11}, "max_objects"),
        ({"min_objects": 5, "max_objects": 4}, "min_objects"),
        ({"area": 1.0}, "do not fit"),
        ({"gap": 3.0}, "do not fit"),
        ({"changes": ["colour"]}, "did you mean 'color'"),
        ({"changes": []}, "at least one change"),
        ({"move_distance": 8.0, "area": 2.0}, "cannot move"),
        ({"objects": 4}, "unknown setting"),
        ({"look": {"lamps": 2.0}}, "look.lamps"),
    ],
)
def test_impossible_settings_are_refused_with_a_reason(values: dict, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        scene_preset("clevr-change", **values)


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        scene_preset("clevr")
    assert "clevr-change" in str(caught.value.hint)


def test_rules_that_leave_no_room_end_in_one_error() -> None:
    crowded = SceneSettings(min_objects=10, area=1.6)
    with pytest.raises(ConfigError, match="no room"):
        World(crowded, seed=0).check_room()
    World(SceneSettings(), seed=0).check_room()


def test_tensors_on_a_device_take_the_same_path(accepted: SceneBatch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything a GPU does but the kernels themselves, on torch tensors that lie on the CPU ("cpu:0")."""

    def draw(seed: np.uint64, limit: int, *tensors: torch.Tensor) -> None:
        world._draw_on_cpu(seed, limit, *(tensor.numpy() for tensor in tensors))

    def as_tensor(function: Callable[..., np.ndarray]) -> Callable[..., torch.Tensor]:
        return lambda *args, **values: torch.from_numpy(function(*args, **values))

    monkeypatch.setattr(launch_cuda, "draw_on_cuda", draw)
    monkeypatch.setattr(world, "visible_pixels", as_tensor(world.visible_pixels))
    monkeypatch.setattr(world, "describable", as_tensor(world.describable))
    device = World(scene_preset("clevr-change"), seed=5, device="cpu:0")
    device.check_room()
    drawn = device.scenes(np.arange(40))
    for name in vars(accepted):
        assert isinstance(getattr(drawn, name), torch.Tensor)
        assert (getattr(drawn, name).numpy() == getattr(accepted, name)[:40]).all(), name


@pytest.mark.gpu
def test_a_gpu_draws_the_scenes_of_the_cpu(accepted: SceneBatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    drawn = World(scene_preset("clevr-change"), seed=5, device="cuda").scenes(np.arange(len(accepted)))
    for name in ("change", "count", "attributes", "target", "scene_id"):
        assert (getattr(drawn, name).cpu().numpy() == getattr(accepted, name)).all(), name
    for name in ("placement", "camera", "lamps", "look"):
        assert getattr(drawn, name).cpu().numpy() == pytest.approx(getattr(accepted, name), abs=1e-6), name


def test_a_kind_named_twice_comes_twice_as_often() -> None:
    settings = SceneSettings(changes=("color", "move", "move"))
    kinds = World(settings, seed=3).scenes(np.arange(60)).change
    assert [int((kinds == CHANGE_TYPES.index(name)).sum()) for name in ("color", "move")] == [20, 40]
