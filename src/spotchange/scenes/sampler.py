"""Scenes from a seed: scene number i is the same whenever, wherever and together with whatever it is drawn.

An attempt that breaks a rule is followed by the next attempt of the same scene, so every number gives a scene.
Accepted is an attempt in which, beside the placement rules of `world_kernel`,

- every object shows MIN_VISIBLE_PIXELS in the image before (the original's rule, checked there only), and
- the changed object shows as many in the image after, unless it was dropped: nobody can tell what nobody sees, and
- some phrase names the changed object alone (`writer.describable`).

Visible pixels are counted on a fixed 240x160 grid, whatever the size of the images drawn later.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from spotchange.config.scenes import SceneSettings
from spotchange.errors import ConfigError
from spotchange.kernels.compile import cached_loop
from spotchange.language.writer import describable
from spotchange.pairs import CHANGE_TYPES
from spotchange.scene import AFTER, BEFORE, MAX_OBJECTS, SHAPE, SceneBatch
from spotchange.scenes import appearance
from spotchange.scenes import sampler_kernel as kernel
from spotchange.scenes.rendering.renderer import visible_pixels
from spotchange.scenes.sampler_kernel import MAX_ATTEMPTS, sample_scene

CHECK_WIDTH, CHECK_HEIGHT = 240, 160
_TRIES = 50  # places tried for one object before the whole scene is drawn anew
_LAMP_JITTER = 1.0  # each axis of each lamp moves by up to this much, once per scene
MIN_VISIBLE_PIXELS = 400  # counted at 480x320
_PIXELS_OF_RULE = 480 * 320
_MOST_ATTEMPTS_AT_ONCE = 256

_SHAPES: dict[str, tuple[str, tuple[int, ...]]] = {
    "scene_id": ("int64", ()),
    "count": ("int32", (2,)),
    "attributes": ("int8", (2, MAX_OBJECTS, 4)),
    "placement": ("float32", (2, MAX_OBJECTS, 3)),
    "camera": ("float32", (3, 3)),
    "lamps": ("float32", (3, 3)),
    "look": ("float32", (appearance.SIZE,)),
    "change": ("int8", ()),
    "target": ("int8", (2,)),
}


def empty_batch(scenes: int, device: str) -> SceneBatch:
    """Room for scenes: numpy on the CPU, torch on a CUDA device."""
    if device == "cpu":
        return SceneBatch(**{name: np.empty((scenes, *shape), dtype) for name, (dtype, shape) in _SHAPES.items()})
    import torch

    return SceneBatch(
        **{
            name: torch.empty((scenes, *shape), dtype=getattr(torch, dtype), device=device)
            for name, (dtype, shape) in _SHAPES.items()
        }
    )


def rules_of(settings: SceneSettings) -> np.ndarray:
    """The settings as the array the kernel reads."""
    rules = np.zeros(kernel.RULES, np.float64)
    rules[kernel.FEWEST], rules[kernel.MOST] = settings.min_objects, settings.max_objects
    rules[kernel.TRIES] = _TRIES
    rules[kernel.AREA], rules[kernel.GAP], rules[kernel.MARGIN] = settings.area, settings.gap, settings.margin
    rules[kernel.MOVE_DISTANCE] = settings.move_distance
    rules[kernel.CAMERA_JITTER], rules[kernel.LAMP_JITTER] = settings.camera_jitter, _LAMP_JITTER
    rules[kernel.CAMERA_TURN] = np.deg2rad(settings.camera_turn)
    return rules


@cached_loop
def _draw_on_cpu(
    seed, limit, rules, changes, attempts, scene_id, count, attributes, placement, camera, lamps, look, change, target
):
    for s in range(scene_id.shape[0]):
        sample_scene(
            s, seed, limit, rules, changes, attempts, scene_id, count, attributes, placement, camera, lamps, look,
            change, target,
        )  # fmt: skip


class World:
    """Draws accepted scenes by number."""

    def __init__(self, settings: SceneSettings, *, seed: int, device: str = "cpu") -> None:
        self.settings, self.seed, self.device = settings, seed, device
        self.tried = self.accepted = 0  # attempts that kept the placement rules, and those of them that could be seen
        self._rules = self._on_device(rules_of(settings))
        self._changes = self._on_device(np.array([CHANGE_TYPES.index(name) for name in settings.changes], np.int8))
        self._slots = self._on_device(np.arange(MAX_OBJECTS))

    def scenes(self, numbers: Any) -> SceneBatch:
        """The scenes with these numbers, in this order.

        Raises:
            ConfigError: a scene was given up because the rules leave it no room.
        """
        numbers = self._on_device(np.ascontiguousarray(numbers, np.int64))
        total = len(numbers)
        result = empty_batch(total, self.device)
        rows = self._on_device(np.arange(total))
        starts = self._on_device(np.zeros(total, np.int32))
        while len(rows):
            at_once, limit = self._effort(len(rows), total)
            candidates, attempts = self.draw(numbers, starts, at_once=at_once, limit=limit)
            fitted = _positions(attempts >= 0)
            accepted = attempts < -1  # none yet
            accepted[fitted] = self._is_acceptable(candidates[fitted])
            accepted = accepted.reshape(-1, at_once)
            done = accepted.any(1)
            kept = _positions(done)
            chosen = kept * at_once + _first_true(accepted[kept])  # as if attempts had been made one by one
            for field in fields(SceneBatch):
                getattr(result, field.name)[rows[kept]] = getattr(candidates, field.name)[chosen]
            self.tried, self.accepted = self.tried + len(fitted), self.accepted + int(accepted.sum())
            rest = _positions(~done)
            last = attempts.reshape(-1, at_once)[rest, -1]
            starts = starts[rest] + at_once * limit
            starts[last >= 0] = last[last >= 0] + 1
            rows, numbers = rows[rest], numbers[rest]
            if len(rows) and int(starts.max()) > MAX_ATTEMPTS:
                raise _no_room()
        return replace(result, look=appearance.draw(result.look, self.settings.look))

    def check_room(self) -> None:
        """Refuse rules that the fullest scenes cannot keep, before any work is done with them."""
        crowded = self.settings.model_copy(update={"min_objects": self.settings.max_objects})
        world, scenes = World(crowded, seed=self.seed, device=self.device), 8
        at_once, limit = (1, 1024) if self.device == "cpu" else (1024, 1)
        numbers, starts = self._on_device(np.arange(scenes)), self._on_device(np.zeros(scenes, np.int32))
        _, attempts = world.draw(numbers, starts, at_once=at_once, limit=limit)
        if not bool((attempts >= 0).reshape(scenes, -1).any(1).all()):
            raise _no_room()

    def draw(self, numbers: Any, starts: Any, *, at_once: int = 1, limit: int = MAX_ATTEMPTS) -> tuple[SceneBatch, Any]:
        """Candidates that keep the placement rules, `at_once` rows a scene, not yet selected by what can be seen.

        Args:
            numbers: int64 (S,) on the world's device.
            starts: int32 (S,): the first attempt to make for each.
            at_once: Rows a scene; each makes `limit` attempts of its own, one row after the other.
            limit: Attempts until a row is given up.

        Returns:
            The candidates, and int32 (S * at_once,): the attempt that made each, -1 where none did.
        """
        steps = self._on_device(limit * np.arange(at_once, dtype=np.int32))
        candidates = empty_batch(len(numbers) * at_once, self.device)
        candidates.scene_id[:] = (numbers[:, None] + 0 * steps).reshape(-1)
        attempts = (starts[:, None] + steps).reshape(-1)
        arrays = [getattr(candidates, field.name) for field in fields(SceneBatch)]
        arguments = (np.uint64(self.seed % 2**64), limit, self._rules, self._changes, attempts, *arrays)
        if self.device == "cpu":
            _draw_on_cpu(*arguments)
        else:
            from spotchange.scenes.launch_cuda import draw_on_cuda

            draw_on_cuda(*arguments)
        return candidates, attempts

    def _effort(self, pending: int, scenes: int) -> tuple[int, int]:
        """Rows a scene and attempts a row.

        The CPU goes on until a scene fits. A GPU waits for its slowest thread, and ten objects may take hundreds of
        attempts: there every thread makes one, with the more threads for each scene the fewer are left.
        """
        if self.device == "cpu":
            return 1, MAX_ATTEMPTS
        return max(1, min(_MOST_ATTEMPTS_AT_ONCE, 4 * scenes // pending)), 1

    def _is_acceptable(self, candidates: SceneBatch) -> Any:
        """bool (S,): see the head of this file."""
        views = (BEFORE, AFTER)
        least = -(-MIN_VISIBLE_PIXELS * CHECK_WIDTH * CHECK_HEIGHT // _PIXELS_OF_RULE)
        pixels = visible_pixels(candidates, width=CHECK_WIDTH, height=CHECK_HEIGHT, views=views, enough=max(least, 1))
        absent = candidates.attributes[:, 0, :, SHAPE] < 0
        all_visible = ((pixels[:, 0] >= least) | absent).all(1)
        other = self._slots != candidates.target[:, 1, None]  # true everywhere after a drop
        change_visible = ((pixels[:, 1] >= least) | other).all(1)
        return all_visible & change_visible & describable(candidates)

    def _on_device(self, values: np.ndarray) -> Any:
        if self.device == "cpu":
            return values
        import torch

        return torch.from_numpy(values).to(self.device)


def _positions(mask: Any) -> Any:
    """Where a mask is true; on a device this waits for it, so it is done once and not for every array."""
    return np.flatnonzero(mask) if isinstance(mask, np.ndarray) else mask.nonzero().flatten()


def _first_true(mask: Any) -> Any:
    return mask.argmax(1) if isinstance(mask, np.ndarray) else mask.int().argmax(1)


def _no_room() -> ConfigError:
    return ConfigError(
        "no room: the objects do not fit, or cannot all be seen",
        hint="ask for fewer objects, a smaller gap or margin, a larger area, or fewer visible pixels",
    )
