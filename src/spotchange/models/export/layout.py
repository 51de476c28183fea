"""Names of an export: its files beside the weights, and the inputs and outputs of its graphs."""

from __future__ import annotations

MANIFEST = "onnx.json"
ENCODER = "encoder.onnx"
DECODER_STEP = "decoder_step.onnx"
NAMER = "namer.onnx"


def layer_names(kind: str, layers: int) -> list[str]:
    """`kind.0.keys`, `kind.0.values`, `kind.1.keys` ..."""
    return [f"{kind}.{layer}.{part}" for layer in range(layers) for part in ("keys", "values")]
