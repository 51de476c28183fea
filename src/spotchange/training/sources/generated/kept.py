"""Generated scenes rendered once and kept on disk, for the many short runs of an ablation.

The stream draws as much as a small model learns, and its kernels take most of a minute to compile in every process;
runs that read one file have neither cost. A file's name tells what it was made of, so that none is read by mistake.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spotchange.errors import DataError
from spotchange.files import atomic_path
from spotchange.locks import only_one_process
from spotchange.pairs import PairBatch
from spotchange.scenes.stream import SceneStream
from spotchange.training.sources.generated.live import LiveScenes, as_held_out, check_even
from spotchange.training.sources.generated.retokenise import WordTable
from spotchange.training.sources.interface import HeldOut, RunContext
from spotchange.training.sources.memory import fits_on
from spotchange.training.sources.order import EpochOrder

KEPT_SEED = 42  # whatever a run's own seed is: all runs share the scenes
RENDERED_AT_ONCE = {"cpu": 8, "cuda": 512}  # scenes


@dataclass(frozen=True, kw_only=True)
class KeptScenes(LiveScenes):
    """The first scenes of a stream that all runs share, from disk."""

    folder: Path
    scenes: int
    made_of: Mapping[str, Any] = field(default_factory=dict)
    """All settings that the scenes depend on, for the name of the file."""

    def batches(self, run: RunContext, pairs: int) -> KeptBatches:  # type: ignore[override]
        at_once = min(self.scenes, RENDERED_AT_ONCE[run.device.type])
        scenes = self._kept(
            "train",
            self._facts(run, self.scenes),
            lambda: render_scenes(self.stream(run, 2 * at_once, seed=KEPT_SEED), self.scenes),
        )
        return KeptBatches(scenes, run, pairs=pairs)

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> HeldOut:
        facts = self._facts(run, pairs // 2) | {"pairs_per_batch": at_once}
        found = self._kept(split, facts, lambda: self.drawn(run, KEPT_SEED, split, pairs=pairs, at_once=at_once))
        return as_held_out(found, run)

    @staticmethod
    def _facts(run: RunContext, scenes: int) -> dict[str, Any]:
        """What kept scenes depend on beside their settings."""
        return {"scenes": scenes, "size": run.image_size, "grid": run.grid}

    def _kept(self, name: str, facts: dict[str, Any], make: Callable[[], Any]) -> Any:
        """What `make` gave for these facts, from disk if any process made it before."""
        digest = hashlib.sha256(json.dumps({**self.made_of, **facts}, sort_keys=True).encode()).hexdigest()[:12]
        path = self.folder / f"{name}-{digest}.pt"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            with only_one_process(path.with_name(f".{path.name}.lock")):
                if not path.is_file():  # another process may have made it while this one waited
                    with atomic_path(path) as temporary:
                        torch.save(make(), temporary)
        try:
            return torch.load(path, mmap=True, weights_only=True)
        except Exception as error:  # a damaged archive fails in as many ways as it has layers
            raise DataError(f"{path} is damaged", hint="remove it: it is made again") from error


def render_scenes(stream: SceneStream, scenes: int) -> dict[str, Tensor]:
    """The first scenes of a stream as tensors on the CPU, a scene a row; `images` are uint8 (S, 3, 3, H, W)."""
    parts: dict[str, list[Tensor]] = {}
    for _ in range(0, scenes, stream.scenes_per_batch):
        pairs = {name: value for name, value in vars(next(stream)).items() if value is not None}
        before, after = pairs.pop("before"), pairs.pop("after")
        rows = {"pictures": torch.stack([before[::2], after[::2], after[1::2]], dim=1)}
        rows |= {name: value.unflatten(0, (-1, 2)) for name, value in pairs.items()}
        for name, value in rows.items():
            parts.setdefault(name, []).append(value.cpu())
    whole = {}
    for name in list(parts):
        whole[name] = torch.cat(parts.pop(name))[:scenes]  # one at a time: images take gigabytes
    return whole


class KeptBatches:
    """Batches of kept scenes: every epoch all of them once, in an order of the run's own; gathered on the device."""

    paired = True
    shares_before = True

    def __init__(self, scenes: dict[str, Tensor], run: RunContext, *, pairs: int) -> None:
        check_even(pairs)
        self._device: torch.device = run.device
        self._words: WordTable | None = run.scene_words
        near = fits_on(run.device, sum(value.nbytes for value in scenes.values()))
        self._scenes = {name: value.to(run.device) for name, value in scenes.items()} if near else scenes
        self._place = run.device if near else torch.device("cpu")
        self._order = EpochOrder(
            len(scenes["pictures"]), pairs // 2, seed=run.seed, rank=run.rank, processes=run.processes
        )

    def next_batch(self) -> PairBatch:
        """The next scenes: each a change row and a distractor row."""
        units = np.concatenate([stretch.units for stretch in self._order.take()])
        numbers = torch.from_numpy(units).to(self._place)
        rows = {name: value[numbers].to(self._device, non_blocking=True) for name, value in self._scenes.items()}
        images = rows.pop("pictures")
        batch = PairBatch(
            before=images[:, 0].repeat_interleave(2, dim=0),
            after=images[:, 1:].flatten(0, 1),
            **{name: value.flatten(0, 1) for name, value in rows.items()},
        )
        return batch if self._words is None else self._words.translate(batch)

    def state_dict(self) -> dict[str, Any]:
        """Where the source stands."""
        return self._order.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._order.load_state_dict(state)
