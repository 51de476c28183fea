"""`models export --to onnx`: graphs beside the weights, checked against torch before they count."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spotchange.errors import MissingExtraError, ModelError
from spotchange.everyday.language.naming import WINDOW
from spotchange.files import atomic_path
from spotchange.models.export.cpu import exact_products
from spotchange.models.export.graphs import graphs_of, longest_sentence, past_shapes
from spotchange.models.export.layout import DECODER_STEP, ENCODER, NAMER
from spotchange.models.export.manifest import Layer, OnnxManifest
from spotchange.models.weights.description import SCALE, sha256
from spotchange.models.weights.folder import load_model

OPSET = 23  # the first with an attention operator
AGREEMENT = 1e-3  # of the largest value of an output; rounding alone stays a hundred times below
_TALKATIVE = ("torch.onnx._internal.exporter._registration", "onnx_ir.passes.common.initializer_deduplication")
_LARGEST_EMBEDDED = 2**20  # bytes of constants a graph file may carry; weights belong into the safetensors files


@dataclass(frozen=True)
class Example:
    """Inputs of each graph, by its file, and what torch makes of them."""

    given: dict[str, tuple[Any, ...]]
    told: dict[str, tuple[Tensor, ...]]


def export_onnx(folder: Path) -> OnnxManifest:
    """Write the graphs and the manifest into a model folder; nothing is left of an export that fails.

    Matrices that the folder keeps in 8 bits are multiplied so, everything else in fp32.
    """
    try:
        import onnx_ir as ir
        import onnxscript.optimizer  # noqa: F401 - its absence should be told before the model is loaded
    except ImportError:
        raise MissingExtraError("exporting to ONNX", extra="train") from None
    loaded = load_model(folder)
    model: Any = loaded.model
    modules = graphs_of(model)
    example = _example(model, modules, pairs=2, words=3)
    manifest = _manifest(model, example, folder)
    graphs = {
        file: _exported(
            module, example.given[file], _free(example, file), manifest.inputs(file), manifest.outputs(file)
        )
        for file, module in modules.items()
    }
    # Words and pixels come from these: a byte of theirs changes answers as one of the weights would.
    checksums = {file: sha256(folder / file) for file in ("tokenizer.json", "preprocessor_config.json")}
    with ExitStack() as written:
        paths = {file: written.enter_context(atomic_path(folder / file)) for file in graphs}
        for file, graph in graphs.items():
            stored = _with_stored_weights(graph, folder)
            # The exporter writes down the lines of source that made each node, with their paths.
            ir.passes.common.ClearMetadataAndDocStringPass()(graph)
            ir.save(graph, paths[file])
            checksums[file] = sha256(paths[file])
            checksums |= {each: sha256(folder / each) for each in stored}
        differences = _compare(model, modules, paths, manifest)
        _refuse_unequal(differences)
    manifest = manifest.model_copy(update={"sha256": checksums, "largest_difference": differences})
    manifest.write(folder)
    return manifest


def _example(model: Any, modules: dict[str, nn.Module], *, pairs: int, words: int) -> Example:
    """Random inputs; two beams, because a dimension of one would be taken for a constant."""
    generator = torch.Generator().manual_seed(0)
    beams = 3
    with torch.no_grad():
        images = tuple(torch.randn(pairs, 3, *model.image_size, generator=generator) for _ in range(2))
        seen = modules[ENCODER](*images)
        visual = [each.contiguous() for each in seen[_visual_from(model, seen) :]]
        past = [
            torch.randn(pairs, beams, heads, words, width, generator=generator)
            for heads, width in past_shapes(model)
            for _ in range(2)
        ]
        vocabulary = len(model.words.words.weight)
        ids = torch.randint(0, vocabulary, (pairs, beams), generator=generator)
        given = {ENCODER: images, DECODER_STEP: (ids, torch.tensor([words]), visual, past)}
        told = {ENCODER: seen, DECODER_STEP: modules[DECODER_STEP](*given[DECODER_STEP])}
        if NAMER in modules:
            given[NAMER] = (torch.randn(pairs, 3, WINDOW, WINDOW, generator=generator),)
            told[NAMER] = modules[NAMER](*given[NAMER])
        return Example(given=given, told=told)


def _visual_from(model: Any, seen: tuple[Tensor, ...]) -> int:
    """Where keys and values begin among the encoder's outputs."""
    return 3 if model.change_head is not None else 2


def _manifest(model: Any, example: Example, folder: Path) -> OnnxManifest:
    from spotchange.models.export.stored_weights import stored_tensors

    seen = example.told[ENCODER]
    heat, features = seen[:2]
    int8 = any(name.endswith(SCALE) for name in stored_tensors(folder))
    first = _visual_from(model, seen)
    visual = seen[first::2]
    return OnnxManifest(
        precision="int8" if int8 else "float32",
        opset=OPSET,
        versions={name: version(name) for name in ("torch", "onnx", "onnxruntime")},
        image_size=model.image_size,
        heat=(heat.shape[2], heat.shape[3]),
        features=features.shape[1],
        change_types=seen[2].shape[1] if first == 3 else 0,
        vocabulary=example.told[DECODER_STEP][0].shape[-1],
        longest=longest_sentence(model),
        visual=[Layer(heads=each.shape[1], head_width=each.shape[3]) for each in visual],
        visual_tokens=visual[0].shape[2],
        past=[Layer(heads=heads, head_width=width) for heads, width in past_shapes(model)],
        names=NAMER in example.told,
        largest_difference={},
        sha256={},
    )


def _free(example: Example, file: str) -> Any:
    """Which dimensions of a graph's inputs may have any length."""
    if file == DECODER_STEP:
        visual, past = example.given[file][2:]
        return {
            "ids": {0: "pairs", 1: "beams"},
            "position": None,
            "visual": [{0: "pairs"} for _ in visual],
            "past": [{0: "pairs", 1: "beams", 3: "words"} for _ in past],
        }
    return tuple({0: "pairs" if file == ENCODER else "windows"} for _ in example.given[file])


def _exported(module: nn.Module, inputs: Any, shapes: Any, input_names: list[str], output_names: list[str]) -> Any:
    """The module as a graph whose weights are still the module's own tensors, by name and untransposed."""
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                module,
                inputs,
                dynamo=True,
                opset_version=OPSET,
                dynamic_shapes=shapes,
                input_names=input_names,
                output_names=output_names,
                optimize=False,
                verbose=False,
            )
            assert program is not None
            _optimize(program.model)
    except Exception as error:  # the exporter fails in as many ways as it has passes
        raise ModelError(f"this model cannot be exported to ONNX: {_root(error)}") from error
    return program.model


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says of itself, of libraries that nobody needs and of values it leaves as they are."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    for logger in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger in loggers:
            logger.disabled = False


def _optimize(graph: Any) -> None:
    """Fold what is constant, but no weights into each other: under their names they would no longer be what is stored.

    Batch norms stay norms while their values count as inputs; onnxruntime multiplies them into convolutions on load.
    """
    from onnxscript import optimizer

    inputs = graph.graph.inputs
    its_own = len(inputs)
    norms = [node for node in graph.graph if node.op_type == "BatchNormalization"]
    inputs.extend(value for node in norms for value in node.inputs[1:])
    optimizer.optimize_ir(graph, should_fold=_keep_weights)
    del inputs[its_own:]


def _root(error: BaseException) -> str:
    """What went wrong first, which the exporter wraps in an error of each pass."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _keep_weights(node: Any) -> bool | None:
    """No transposed copies of stored weights; the runtime makes them on load."""
    of_weights = any(value is not None and (value.name or "").startswith("model.") for value in node.inputs)
    return False if of_weights else None


def _with_stored_weights(graph: Any, folder: Path) -> set[str]:
    from spotchange.models.export.stored_weights import embedded_bytes, point_to_stored, stored_tensors

    files = point_to_stored(graph, stored_tensors(folder), folder)
    embedded = embedded_bytes(graph)
    if embedded > _LARGEST_EMBEDDED:
        raise ModelError(f"this model cannot be exported to ONNX: {embedded:,} bytes of its graph are no weights of it")
    return files


def _compare(
    model: Any, modules: dict[str, nn.Module], paths: dict[str, Path], manifest: OnnxManifest
) -> dict[str, float]:
    """Largest difference from torch by output, relative to the output's largest value; other shapes than exported."""
    differences: dict[str, float] = {}
    sessions = {file: _session(path) for file, path in paths.items()}
    for pairs, words in ((1, 0), (3, 5)):
        example = _example(model, modules, pairs=pairs, words=words)
        for file, session in sessions.items():
            values = [value for each in example.given[file] for value in (each if isinstance(each, list) else [each])]
            feeds = {name: value.numpy() for name, value in zip(manifest.inputs(file), values, strict=True)}
            outputs = zip(manifest.outputs(file), session.run(None, feeds), example.told[file], strict=True)
            for name, ours, theirs in outputs:
                differences[name] = max(differences.get(name, 0.0), _difference(ours, theirs.numpy()))
    return {name: float(f"{value:.2g}") for name, value in differences.items()}


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(*exact_products())
    try:
        return onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"this model cannot be exported to ONNX: onnxruntime refuses it: {reason}") from error


def _difference(ours: Any, theirs: Any) -> float:
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max())) if theirs.size else 0.0


def _refuse_unequal(differences: dict[str, float]) -> None:
    apart = [name for name, value in differences.items() if not value <= AGREEMENT]
    if apart:
        raise ModelError(f"this model's export does not agree with torch: {', '.join(apart)}; nothing was written")
