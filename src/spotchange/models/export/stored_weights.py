"""Weights stored once: the graphs' initializers are external data that lies in the folder's safetensors files.

Safetensors keeps tensors as plain little-endian rows, which is what ONNX calls external data, so a graph needs only to
know file, offset and length. What is stored in half precision is cast on load; the runtime folds the casts away. What
is stored in 8 bits is multiplied so (`eight_bit_products.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from spotchange.errors import ModelError
from spotchange.files import load_json
from spotchange.models.export.eight_bit_products import multiply_in_eight_bits
from spotchange.models.weights.description import SCALE, weight_files

_TYPES = {
    "F32": ir.DataType.FLOAT, "F16": ir.DataType.FLOAT16, "BF16": ir.DataType.BFLOAT16,
    "I64": ir.DataType.INT64, "I8": ir.DataType.INT8,
}  # fmt: skip


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies."""

    file: str
    offset: int
    length: int
    type: ir.DataType
    shape: tuple[int, ...]


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Every tensor of a model folder by its name in the model."""
    found = {}
    for file in weight_files(folder):
        with (folder / file).open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            header: dict[str, Any] = load_json(stream.read(size))
        header.pop("__metadata__", None)
        for name, entry in header.items():
            if entry["dtype"] in _TYPES:
                begin, end = entry["data_offsets"]
                found[name.removeprefix("model.")] = StoredTensor(
                    file, 8 + size + begin, end - begin, _TYPES[entry["dtype"]], tuple(entry["shape"])
                )
    return found


def point_to_stored(model: ir.Model, stored: dict[str, StoredTensor], folder: Path) -> set[str]:
    """Replace the initializers that are the model's tensors; the files they lie in."""
    files = set()
    casts = []
    for name, value in list(model.graph.initializers.items()):
        tensor = stored.get(name.removeprefix("model."))
        if not name.startswith("model.") or tensor is None:
            continue
        if value.shape is None or tuple(value.shape) != tensor.shape:
            raise ModelError(f"{tensor.file}: {name} has shape {tensor.shape}, the graph wants {value.shape}")
        files.add(tensor.file)
        external = _external(name, tensor, folder)
        if tensor.type == value.dtype:
            value.const_value = external
            continue
        kept = _initializer(external)
        if tensor.type == ir.DataType.INT8:
            its_scale = stored[name.removeprefix("model.") + SCALE]  # there is one, or torch would not have loaded it
            files.add(its_scale.file)
            scale = _initializer(_external(name + SCALE, its_scale, folder))
            multiply_in_eight_bits(model, value, kept, scale)
            del model.graph.initializers[name]
            model.graph.initializers[name] = kept
            model.graph.initializers[name + SCALE] = scale
            continue
        assert value.dtype is not None
        cast = ir.node("Cast", [kept], attributes={"to": value.dtype})
        cast.outputs[0].name = f"{name}.fp32"
        cast.outputs[0].shape, cast.outputs[0].dtype = value.shape, value.dtype
        ir.convenience.replace_all_uses_with(value, cast.outputs[0])
        del model.graph.initializers[name]
        model.graph.initializers[name] = kept
        casts.append(cast)
    if casts:
        model.graph.insert_before(model.graph[0], casts)
    return files


def _external(name: str, tensor: StoredTensor, folder: Path) -> ir.ExternalTensor:
    return ir.ExternalTensor(
        tensor.file, tensor.offset, tensor.length, tensor.type, name=name, shape=ir.Shape(tensor.shape),
        base_dir=str(folder),
    )  # fmt: skip


def _initializer(external: ir.ExternalTensor) -> ir.Value:
    return ir.Value(
        name=external.name, shape=ir.Shape(external.shape), type=ir.TensorType(external.dtype), const_value=external
    )


def embedded_bytes(model: ir.Model) -> int:
    """What the graph file itself has to carry."""
    return sum(
        value.const_value.nbytes
        for value in model.graph.initializers.values()
        if value.const_value is not None and not isinstance(value.const_value, ir.ExternalTensor)
    )
