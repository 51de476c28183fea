"""Generated scenes rendered once and kept on disk, for the many short runs of an ablation.

The stream draws as much as a small model learns, and its kernels take most of a minute to compile in every process;
runs that read one file have neither cost. A file's name tells what it was made of, so that none is read by mistake.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spotchange.config.sources import StreamSource
from spotchange.errors import ConfigError
from spotchange.files import atomic_path
from spotchange.locks import only_one_process
from spotchange.pairs import PairBatch
from spotchange.scenes.stream import SceneStream
from spotchange.training.sources.features import Turns
from spotchange.training.sources.memory import fits_on

KEPT_SEED = 42  # whatever a run's own seed is: all runs share the scenes
RENDERED_AT_ONCE = {"cpu": 8, "cuda": 512}  # scenes


def kept(folder: str, name: str, settings: StreamSource, facts: dict[str, Any], make: Callable[[], Any]) -> Any:
    """What `make` gave for these settings and facts, from disk if any process made it before."""
    made_of = settings.model_dump(mode="json", exclude={"kept", "kept_scenes"}) | facts
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:12]
    path = Path(folder) / f"{name}-{digest}.pt"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with only_one_process(path.with_name(f".{path.name}.lock")):
            if not path.is_file():  # another process may have made it while this one waited
                with atomic_path(path) as temporary:
                    torch.save(make(), temporary)
    return torch.load(path, mmap=True, weights_only=True)


def render_scenes(stream: SceneStream, scenes: int) -> dict[str, Tensor]:
    """The first scenes of a stream as tensors on the CPU, a scene a row; `pictures` are uint8 (S, 3, 3, H, W)."""
    parts: dict[str, list[Tensor]] = {}
    for _ in range(0, scenes, stream.scenes_per_batch):
        pairs = dict(vars(next(stream)))
        before, after = pairs.pop("before"), pairs.pop("after")
        rows = {"pictures": torch.stack([before[::2], after[::2], after[1::2]], dim=1)}
        rows |= {name: value.unflatten(0, (-1, 2)) for name, value in pairs.items()}
        for name, value in rows.items():
            parts.setdefault(name, []).append(value.cpu())
    whole = {}
    for name in list(parts):
        whole[name] = torch.cat(parts.pop(name))[:scenes]  # one at a time: pictures take gigabytes
    return whole


class KeptBatches:
    """Batches of kept scenes: every epoch all of them once, in an order of the run's own; gathered on the device."""

    paired = True
    shares_before = True

    def __init__(
        self,
        scenes: dict[str, Tensor],
        *,
        pairs: int,
        seed: int,
        device: torch.device,
        rank: int = 0,
        world_size: int = 1,
        translate: Callable[[PairBatch], PairBatch] | None = None,
    ) -> None:
        if pairs % 2:
            raise ConfigError(f"scenes give a change and a distractor each: {pairs} pairs a batch are not even")
        self._device, self._translate = device, translate
        near = fits_on(device, sum(value.nbytes for value in scenes.values()))
        self._scenes = {name: value.to(device) for name, value in scenes.items()} if near else scenes
        self._place = device if near else torch.device("cpu")
        self._turns = Turns(len(scenes["pictures"]), pairs // 2, seed=seed, rank=rank, world_size=world_size)

    def next_batch(self) -> PairBatch:
        """The next scenes: each a change row and a distractor row."""
        numbers = torch.from_numpy(self._turns.take()[0]).to(self._place)
        rows = {name: value[numbers].to(self._device, non_blocking=True) for name, value in self._scenes.items()}
        pictures = rows.pop("pictures")
        batch = PairBatch(
            before=pictures[:, 0].repeat_interleave(2, dim=0),
            after=pictures[:, 1:].flatten(0, 1),
            **{name: value.flatten(0, 1) for name, value in rows.items()},
        )
        return batch if self._translate is None else self._translate(batch)

    def state_dict(self) -> dict[str, Any]:
        """Where the source stands."""
        return {"position": self._turns.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._turns.position = state["position"]
