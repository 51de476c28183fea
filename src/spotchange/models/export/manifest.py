"""`onnx.json` of a model folder: what was exported, with what, and how to know that it is still the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError

from spotchange.config.base import Settings
from spotchange.errors import ModelError
from spotchange.files import write_text
from spotchange.models.export.layout import DECODER_STEP, ENCODER, MANIFEST, NAMER, layer_names
from spotchange.models.weights.description import check_sum, needed, read_json


class Layer(Settings):
    """Keys and values of one layer that attends over words."""

    heads: int
    head_width: int


class OnnxManifest(Settings):
    """Everything a runtime must know of the graphs."""

    precision: Literal["float32", "int8"]
    """What linear layers multiply with; int8: weights of 8 bits with activations of 16."""
    opset: int = Field(ge=1)
    versions: dict[str, str]
    """torch, onnx and onnxruntime that exported and checked the graphs."""
    image_size: tuple[int, int]
    heat: tuple[int, int]
    """Rows and columns of the heat map."""
    features: int
    change_types: int
    """Width of the change logits; 0: the model has no change head."""
    vocabulary: int
    longest: int
    """Most words a sentence can have."""
    visual: list[Layer]
    """Layers that read the images, in the order of the inputs."""
    visual_tokens: int
    past: list[Layer]
    """Layers that keep the words so far, in the order of the inputs."""
    names: bool = False
    """Whether there is a third graph, which names what a window shows."""
    largest_difference: dict[str, float]
    """From torch in fp32, on the inputs of the check, by output."""
    sha256: dict[str, str]
    """Checksums of the graphs, of every file their weights lie in, of tokenizer and preprocessing."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The folder's manifest."""
        values = read_json(folder, MANIFEST)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ModelError(f"{folder / MANIFEST} is not valid: {' '.join(str(error).split())[:300]}") from error

    def write(self, folder: Path) -> None:
        """Beside the weights."""
        write_text(folder / MANIFEST, json.dumps(self.model_dump(mode="json"), indent=2) + "\n")

    def check(self, folder: Path) -> None:
        """Refuse files that are missing or are not those that were exported."""
        for name in (ENCODER, DECODER_STEP, *([NAMER] if self.names else [])):
            if name not in self.sha256:
                raise ModelError(f"{folder / MANIFEST} has no checksum of {name}")
        for name, expected in self.sha256.items():
            if Path(name).name != name:
                raise ModelError(f"{folder / MANIFEST} names {name!r}, which is no file of the folder")
            check_sum(needed(folder, name), expected, source=MANIFEST)

    def inputs(self, file: str) -> list[str]:
        """Names of a graph's inputs, in order."""
        visual, past = (layer_names(kind, len(getattr(self, kind))) for kind in ("visual", "past"))
        return {
            ENCODER: ["before", "after"],
            DECODER_STEP: ["ids", "position", *visual, *past],
            NAMER: ["windows"],
        }[file]

    def outputs(self, file: str) -> list[str]:
        """Names of a graph's outputs, in order."""
        logits = ["change_logits"] if self.change_types else []
        return {
            ENCODER: ["heat", "features", *logits, *layer_names("visual", len(self.visual))],
            DECODER_STEP: ["scores", *layer_names("present", len(self.past))],
            NAMER: ["nouns", "colours"],
        }[file]
