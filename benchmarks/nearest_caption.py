"""What copying gets: for every pair the first caption of the training pair that looks most alike.

    python benchmarks/nearest_caption.py DATA --resnet FOLDER --split val --out nearest.jsonl
    spotchange evaluate nearest.jsonl DATA --split val

Pairs are compared by the mean ResNet features of both images, as unit vectors. RESNET is a folder or a hub name in
transformers' format; --stride-first for networks of the original kind.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.config.model import ModelSettings
from spotchange.data import Row, read_rows
from spotchange.files import write_text
from spotchange.images import read_image
from spotchange.models.build import preprocessor_for
from spotchange.models.vision.build import resnet_arguments
from spotchange.models.vision.resnet import GridNetwork

BATCH = 64


@torch.inference_mode()
def pair_vectors(rows: list[Row], settings: ModelSettings, device: str) -> Tensor:
    """(rows, 2 channels): mean features of before and after, each of unit length."""
    network = GridNetwork(**resnet_arguments(settings.vision)).eval().to(device)
    preprocess = preprocessor_for(settings)
    found = []
    for start in range(0, len(rows), BATCH):
        chosen = rows[start : start + BATCH]
        images = [read_image(path) for row in chosen for path in (row.before_path, row.after_path)]
        cells = network.of_images(preprocess(images).to(device))
        found.append(F.normalize(cells.mean(dim=1), dim=-1).view(len(chosen), -1).cpu())
    return torch.cat(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder of the data set, with a split called train")
    parser.add_argument("--resnet", required=True, help="folder or hub name of the network")
    parser.add_argument("--stride-first", action="store_true", help="the network halves in its 1x1 convolutions")
    parser.add_argument("--split", default="val")
    parser.add_argument("--out", type=Path, required=True, help="captions, one JSON object a line")
    arguments = parser.parse_args()
    settings = ModelSettings.model_validate(
        {
            "vision": {
                "backbone": "resnet",
                "resnet": arguments.resnet,
                "resnet_stride_first": arguments.stride_first,
                "layers": 0,
            }
        }
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    known, asked = list(read_rows(arguments.data, "train")), list(read_rows(arguments.data, arguments.split))
    nearest = (pair_vectors(asked, settings, device) @ pair_vectors(known, settings, device).T).argmax(dim=1)
    lines = [
        json.dumps({"id": row.id, "caption": known[place].captions[0]})
        for row, place in zip(asked, nearest.tolist(), strict=True)
    ]
    write_text(arguments.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
