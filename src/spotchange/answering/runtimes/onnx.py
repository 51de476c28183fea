"""A model folder's network on onnxruntime: numpy in, numpy out, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.answering.interface import AnswererCard
from spotchange.answering.runtimes.interface import Encoded, alternatives
from spotchange.answering.runtimes.onnx_graphs import OpenGraphs, Session
from spotchange.errors import ModelError
from spotchange.models.decoding import search
from spotchange.models.decoding.arrays import NumpyArrays
from spotchange.models.export.layout import DECODER_STEP, ENCODER
from spotchange.models.export.manifest import OnnxManifest
from spotchange.models.interface import DecodingOptions
from spotchange.models.weights.description import read_description
from spotchange.results import Alternative

Ids = npt.NDArray[np.int64]


class OnnxRuntime:
    """`ModelRuntime` on onnxruntime's CPU provider. Calls from several threads share its thread pool."""

    workers = 1  # it spreads the work over its threads itself

    def __init__(self, folder: Path, graphs: OpenGraphs) -> None:
        self.manifest = OnnxManifest.read(folder)
        self.description = read_description(folder)
        self.manifest.check(folder)  # first: a damaged file is a better reason than what a graph says of it
        self._encoder, self._decoder = graphs.result()
        # The tokens of one pair keep two threads busy. More at a time fill memory (851 MiB for 16, 276 for one) and
        # gain nothing: what a layer makes of one pair still lies in the cache when the next layer reads it.
        self._pairs_at_a_time = max(1, graphs.threads // 2)
        self._resizing = ThreadPoolExecutor(max_workers=2, thread_name_prefix="resize")
        check_shapes(self._encoder, self._decoder, self.manifest, folder)

    @property
    def card(self) -> AnswererCard:
        settings = self.description.settings
        return AnswererCard(
            name=self.description.name,
            architecture=settings.architecture,
            change_types=tuple(self.description.change_types),
            image_size=settings.vision.image_size,
            device="cpu",
        )

    def set_threads(self, count: int) -> None:
        """A session's threads are chosen when it is opened."""

    def token_id(self, word: str) -> int | None:
        found: int | None = self.description.tokenizer.token_to_id(word)
        return found

    def encode(self, before: Sequence[Image.Image], after: Sequence[Image.Image]) -> Encoded:
        size = self._pairs_at_a_time
        starts = range(0, len(before), size)
        sides = [side[start : start + size] for start in starts for side in (before, after)]
        # Both images of a pair at once, and those of the next pairs while the network looks at this one.
        ready = self._resizing.map(self.description.preprocessor.arrays, sides)
        parts = [self._encoder.run(None, {"before": next(ready), "after": next(ready)}) for _ in starts]
        values = parts[0] if len(parts) == 1 else [np.concatenate(each) for each in zip(*parts, strict=True)]
        outputs = dict(zip(self.manifest.encoder_outputs, values, strict=True))
        return Encoded(
            change_logits=outputs.pop("change_logits", None),
            heat=outputs.pop("heat"),
            features=outputs.pop("features"),
            state=outputs,  # what is left: keys and values of the images
        )

    def generate(self, encoded: Encoded, options: DecodingOptions) -> list[list[Alternative]]:
        words = self.description.settings.vocabulary
        options = search.checked(options, context=self.manifest.longest)
        pairs = len(encoded.heat)
        steps = OnnxSteps(self._decoder, self.manifest, encoded.state, pairs, search.rows_per_pair(options))
        special = search.SpecialIds(begin=words.begin, end=words.end, pad=words.pad)
        generated: Any = search.generate(steps, pairs, special, options, NumpyArrays())
        return alternatives(generated.ids, generated.log_probabilities, generated.lengths, self.description.decode)


class OnnxSteps:
    """Sentences in the making: the decoder's graph and the keys and values it has given so far."""

    def __init__(self, session: Session, manifest: OnnxManifest, visual: dict[str, Any], pairs: int, rows: int) -> None:
        self._session = session
        self._visual = visual
        self._shape = (pairs, rows)
        self._position = 0
        inputs = manifest.step_inputs
        self._past_names = inputs[2 + 2 * len(manifest.visual) :]
        layers = [layer for layer in manifest.past for _ in range(2)]
        self._past = [np.empty((pairs, rows, each.heads, 0, each.head_width), np.float32) for each in layers]

    def step(self, ids: Ids) -> npt.NDArray[np.float32]:
        """Feed one word a row (rows,); scores of the next (rows, vocabulary)."""
        feeds = {
            "ids": ids.reshape(self._shape),
            "position": np.array([self._position]),
            **self._visual,
            **dict(zip(self._past_names, self._past, strict=True)),
        }
        scores, *self._past = self._session.run(None, feeds)
        self._position += 1
        return np.asarray(scores.reshape(len(ids), -1))

    def select(self, rows: Ids) -> None:
        """Let row i go on from the history of row `rows[i]`."""
        if not np.array_equal(rows, np.arange(len(rows))):
            self._past = [each.reshape(len(rows), *each.shape[2:])[rows].reshape(each.shape) for each in self._past]


def check_shapes(encoder: Session, decoder: Session, manifest: OnnxManifest, folder: Path) -> None:
    """Refuse graphs that are not what the manifest says."""
    height, width = manifest.image_size
    expected = {
        (ENCODER, "before"): ["pairs", 3, height, width],
        (ENCODER, "after"): ["pairs", 3, height, width],
        (ENCODER, "heat"): ["pairs", 2, *manifest.heat],
        (ENCODER, "features"): ["pairs", manifest.features],
        (DECODER_STEP, "scores"): ["pairs", "beams", manifest.vocabulary],
    }
    found: dict[tuple[str, str], list[Any]] = {}
    for name, session, inputs, outputs in (
        (ENCODER, encoder, ["before", "after"], manifest.encoder_outputs),
        (DECODER_STEP, decoder, manifest.step_inputs, manifest.step_outputs),
    ):
        if [each.name for each in session.get_inputs()] != inputs:
            raise ModelError(f"{folder / name} does not take the inputs that onnx.json names")
        if [each.name for each in session.get_outputs()] != outputs:
            raise ModelError(f"{folder / name} does not give the outputs that onnx.json names")
        found |= {(name, each.name): each.shape for each in (*session.get_inputs(), *session.get_outputs())}
    for (name, value), shape in expected.items():
        sizes = [each for each in found[name, value] if isinstance(each, int)]
        if sizes != [each for each in shape if isinstance(each, int)]:
            raise ModelError(f"{folder / name}: {value} has shape {found[name, value]} instead of {shape}")
