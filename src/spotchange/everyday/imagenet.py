"""A second opinion on names: ImageNet's thousand classes read as nouns of the tree.

The nouns that a model learns come from pasted things; ImageNet's classes come from a million photos, and no pasted one.
"""

from __future__ import annotations

from importlib import resources

import numpy as np
import numpy.typing as npt

from spotchange.everyday.nouns import NounTree

CLASSES = 1000


def class_table(tree: NounTree) -> npt.NDArray[np.float32]:
    """(classes, nouns + 1): 1 where a class is a noun; classes without one count for what has no name."""
    import yaml

    text = resources.files("spotchange.everyday").joinpath("imagenet.yaml").read_text(encoding="utf-8")
    table = np.zeros((CLASSES, len(tree.names) + 1), np.float32)
    for noun, numbers in yaml.safe_load(text).items():
        for part in str(numbers).split():
            first, _, last = part.partition("-")
            table[int(first) : int(last or first) + 1, tree.ids[noun]] = 1
    table[:, -1] = table.sum(axis=1) == 0
    return table
