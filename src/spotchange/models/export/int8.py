"""int8: matrix products of the encoder, weights rounded per output channel, activations measured as they come."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from spotchange.errors import ModelError


def quantize(path: Path) -> None:
    """Replace the graph by its int8 form, which carries its own weights.

    Weights are symmetric with a scale per output channel, activations unsigned with a scale per product (dynamic
    quantization): nothing has to be calibrated on data. Convolutions, attention and norms stay in fp32.
    """
    import onnx
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.getLogger().addFilter(_is_not_advice)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".int8.") as work:
            folded, plain = Path(work) / "folded.onnx", Path(work) / "plain.onnx"
            options = onnxruntime.SessionOptions()
            # Only constants are folded: casts and transposed copies of the stored weights.
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
            options.optimized_model_filepath = str(folded)
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            model = onnx.load(str(folded))
            del model.graph.value_info[:]  # the quantizer infers shapes again, and trips over the exporter's
            onnx.save(model, str(plain))
            quantize_dynamic(
                str(plain), str(path), per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"]
            )
    except Exception as error:  # neither library's errors share a base
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"this model cannot be quantized: {reason}") from error
    finally:
        logging.getLogger().removeFilter(_is_not_advice)


def _is_not_advice(record: logging.LogRecord) -> bool:
    """The quantizer recommends on the root logger what has just been done."""
    return "pre-processing before quantization" not in record.getMessage()
