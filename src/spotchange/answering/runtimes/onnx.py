"""A model folder's network on onnxruntime: numpy in, numpy out, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.answering.interface import AnswererCard
from spotchange.answering.runtimes.interface import Encoded, Floats, alternatives
from spotchange.answering.runtimes.onnx_graphs import OpenGraphs, Session
from spotchange.errors import ModelError
from spotchange.everyday.language.naming import WINDOW
from spotchange.models.decoding import search
from spotchange.models.decoding.arrays import NumpyArrays
from spotchange.models.export.layout import DECODER_STEP, ENCODER, NAMER, layer_names
from spotchange.models.export.manifest import Layer, OnnxManifest
from spotchange.models.interface import DecodingOptions
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.weights.description import read_description
from spotchange.results import Alternative

Ids = npt.NDArray[np.int64]
PAIRS_A_SEARCH = 4  # whose keys and values stay in the cache from word to word: 3.8 ms a pair, 4.4 of sixteen, 5 alone


class OnnxRuntime:
    """`ModelRuntime` on onnxruntime's CPU provider. Calls from several threads share its thread pool."""

    workers = 1  # it spreads the work over its threads itself

    def __init__(self, folder: Path, graphs: OpenGraphs) -> None:
        self.manifest = OnnxManifest.read(folder)
        self.manifest.check(folder)  # first: a damaged file is a better reason than what a reader or graph says of it
        self.description = read_description(folder)
        self._graphs, self._folder = graphs, folder
        self._encoder, self._decoder = graphs.result()
        self._lanes = ThreadPoolExecutor(max_workers=graphs.threads, thread_name_prefix="lane")
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
        """One pair a run, whatever the batch, so that a pair's numbers do not depend on its company.

        All threads share a single pair; of several, each thread has one to itself and waits for nobody.
        """
        pairs = list(zip(before, after, strict=True))
        first = self._graphs.encoder_of_one_thread() if len(pairs) > 1 else None
        parts: list[dict[str, Any]] = []
        while len(parts) < len(pairs) and (first is None or not first.done()):
            parts.append(self._together(*pairs[len(parts)]))
        if first is not None and len(parts) < len(pairs):
            session = first.result()
            parts += self._lanes.map(lambda pair: self._alone(session, *pair), pairs[len(parts) :])
        joined = {
            name: np.concatenate([part.pop(name) for part in parts])
            for name in ("change_logits", "heat", "features")
            if name in parts[0]
        }
        return Encoded(
            change_logits=joined.get("change_logits"),
            heat=joined["heat"],
            features=joined["features"],
            state=parts,  # what is left: keys and values of the images, pair by pair
        )

    def _together(self, before: Image.Image, after: Image.Image) -> dict[str, Any]:
        other = self._lanes.submit(self.description.preprocessor.arrays, [after])
        one = self.description.preprocessor.arrays([before])
        return self._outputs(self._encoder, one, other.result())

    def _alone(self, session: Session, before: Image.Image, after: Image.Image) -> dict[str, Any]:
        one, other = (self.description.preprocessor.arrays([image]) for image in (before, after))
        return self._outputs(session, one, other)

    def _outputs(self, session: Session, before: Any, after: Any) -> dict[str, Any]:
        values = session.run(None, {"before": before, "after": after})
        return dict(zip(self.manifest.outputs(ENCODER), values, strict=True))

    def name_windows(self, windows: Sequence[Image.Image]) -> tuple[Floats, Floats]:
        nouns, colours = self._namer.run(None, {"windows": self._windows.arrays(windows)})
        return nouns, colours

    @cached_property
    def _windows(self) -> Preprocessor:
        return replace(self.description.preprocessor, image_size=(WINDOW, WINDOW))

    @cached_property
    def _namer(self) -> Session:
        if not self.manifest.names:
            raise ModelError("this model's export has no names for single things", hint="use an everyday model")
        session = self._graphs.namer()
        check_names(NAMER, session, self.manifest, self._folder)
        return session

    def generate(self, encoded: Encoded, options: DecodingOptions) -> list[list[Alternative]]:
        options = search.checked(options, context=self.manifest.longest)
        state = encoded.state
        groups = [state[start : start + PAIRS_A_SEARCH] for start in range(0, len(state), PAIRS_A_SEARCH)]
        if len(groups) == 1:
            return self._search(groups[0], options)
        return [each for found in self._lanes.map(lambda group: self._search(group, options), groups) for each in found]

    def _search(self, parts: Sequence[dict[str, Any]], options: DecodingOptions) -> list[list[Alternative]]:
        words = self.description.settings.vocabulary
        visual = parts[0] if len(parts) == 1 else {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
        steps = OnnxSteps(self._decoder, self.manifest, visual, len(parts), search.rows_per_pair(options))
        special = search.SpecialIds(begin=words.begin, end=words.end, pad=words.pad)
        generated: Any = search.generate(steps, len(parts), special, options, NumpyArrays())
        return alternatives(generated.ids, generated.log_probabilities, generated.lengths, self.description.decode)


class OnnxSteps:
    """Sentences in the making: the decoder's graph and the keys and values it has given so far."""

    def __init__(self, session: Session, manifest: OnnxManifest, visual: dict[str, Any], pairs: int, rows: int) -> None:
        self._session = session
        self._visual = visual
        self._shape = (pairs, rows)
        self._position = 0
        inputs = manifest.inputs(DECODER_STEP)
        self._past_names = inputs[2 + 2 * len(manifest.visual) :]
        sizes = [(pairs, rows, each.heads, 0, each.head_width) for each in _twice(manifest.past)]
        self._past = [np.empty(size, np.float32) for size in sizes]

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


def _twice(layers: Sequence[Layer]) -> list[Layer]:
    """One for the keys, one for the values."""
    return [layer for layer in layers for _ in range(2)]


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
    if manifest.change_types:
        expected[ENCODER, "change_logits"] = ["pairs", manifest.change_types]
    for name, each in zip(layer_names("visual", len(manifest.visual)), _twice(manifest.visual), strict=True):
        expected[DECODER_STEP, name] = ["pairs", each.heads, manifest.visual_tokens, each.head_width]
    for name, each in zip(layer_names("past", len(manifest.past)), _twice(manifest.past), strict=True):
        expected[DECODER_STEP, name] = ["pairs", "beams", each.heads, "words", each.head_width]
    found: dict[tuple[str, str], list[Any]] = {}
    for name, session in ((ENCODER, encoder), (DECODER_STEP, decoder)):
        check_names(name, session, manifest, folder)
        found |= {(name, each.name): each.shape for each in (*session.get_inputs(), *session.get_outputs())}
    for (name, value), shape in expected.items():
        sizes = [each for each in found[name, value] if isinstance(each, int)]
        if sizes != [each for each in shape if isinstance(each, int)]:
            raise ModelError(f"{folder / name}: {value} has shape {found[name, value]} instead of {shape}")


def check_names(file: str, session: Session, manifest: OnnxManifest, folder: Path) -> None:
    """Refuse a graph whose inputs or outputs are not those of the manifest."""
    if [each.name for each in session.get_inputs()] != manifest.inputs(file):
        raise ModelError(f"{folder / file} does not take the inputs that onnx.json names")
    if [each.name for each in session.get_outputs()] != manifest.outputs(file):
        raise ModelError(f"{folder / file} does not give the outputs that onnx.json names")
