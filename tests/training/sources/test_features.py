"""A small data set of real files, seen once by a frozen network: CLIP4IDC and IDC-PCL learn from its features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from spotchange.config.sources import DatasetSource
from spotchange.config.training import Recipe
from spotchange.data.caches.features import read_feature_rows
from spotchange.errors import ConfigError
from spotchange.models.vision.resnet import frozen_network
from spotchange.training.randomness import seed_everything
from spotchange.training.run import run_stage
from spotchange.training.sources.build import held_out_pairs, run_context
from spotchange.training.sources.extraction import FrozenBackbone, dataset_features
from spotchange.training.start import Start, start_model

SIDE = 64
RESNET = {
    "backbone": "resnet",
    "resnet_depths": [1, 1, 1, 1],
    "resnet_channels": [8, 8, 8, 16],
    "image_size": [SIDE, SIDE],
    "freeze_backbone": True,
}
CAPTION = {"kind": "caption", "dense": {"attributes": 0, "mask": 1, "change": 0, "answer": 0}}


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    """Pairs in which a house appears in the top left corner, as the mask says."""
    folder = tmp_path / "set" / "train"
    folder.mkdir(parents=True)
    chance, lines = np.random.default_rng(0), []
    mask = np.zeros((SIDE, SIDE), dtype=np.uint8)
    mask[: SIDE // 4, : SIDE // 4] = 255
    Image.fromarray(mask).save(folder / "mask.png")
    kinds = ("big", "small", "red", "white", "wooden", "brick", "round", "new")
    for number, kind in enumerate(kinds):
        names = {}
        for side in ("before", "after"):
            names[f"{side}_file_name"] = f"{number}-{side}.png"
            pixels = chance.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / names[f"{side}_file_name"])
        texts = [f"a {kind} house appears at the top left", f"at the top left a {kind} house was built"]
        lines.append({"id": str(number), **names, "captions": texts, "mask_file_name": "mask.png"})
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder.parent


def recipe(data: Any, *, objective: dict[str, Any], model: dict[str, Any], **changes: Any) -> Recipe:
    values = {
        "name": "features",
        "seed": 1,
        "model": model,
        "data": data,
        "stage": {"objective": objective, "new_words": True, "steps": 2, "pairs_per_step": 4},
        "augment": {"symmetries": True},
        "validation": {"data": data, "every": 2, "pairs": 8, "pairs_per_batch": 3},
        **changes,
    }
    return Recipe.from_mapping(values, source="test")


CLIP4IDC = {
    "preset": "spotchange-tiny",
    "vision": RESNET | {"layers": 1, "n_inter": 1},
    "text": {"encoder": False},
    "heads": {"change": False},
}
IDC_PCL = {
    "preset": "idc-pcl-resnet50",
    "vision": RESNET,
    "text": {"width": 32, "context": 24},
    "captioner": {"width": 32, "heads": 2, "decoder_layers": 1},
    "heads": {"change": False, "pretraining": True},
    "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0},
}


def begin(settings: Recipe) -> Start:
    seed_everything(settings.seed, 0)  # the random network that a run of this seed draws
    return start_model(settings)


def make_features(data_set: Path, model: dict[str, Any]) -> Path:
    settings = recipe(str(data_set), objective=CAPTION, model=model)
    out = data_set.parent / "features"
    dataset_features(out, FrozenBackbone.of(begin(settings), "cpu"), DatasetSource(kind="dataset", path=str(data_set)))
    return out


def test_features_are_read_in_the_place_of_images(data_set: Path) -> None:
    folder = make_features(data_set, CLIP4IDC)
    assert [[list(side) for side in row.changed or ()] for row in read_feature_rows(folder)] == [[[0], [0]]] * 8
    settings = recipe({"kind": "features", "path": str(folder)}, objective=CAPTION, model=CLIP4IDC)
    start = begin(settings)
    found = held_out_pairs(settings, run_context(settings, start, device=torch.device("cpu")))
    assert found is not None
    assert [len(batch) for batch in found.batches] == [3, 3, 2]
    assert found.references[7] == ["a new house appears at the top left", "at the top left a new house was built"]
    batch = found.batches[0]
    assert batch.change_mask is not None
    assert batch.change_mask.sum(dim=-1).tolist() == [[1, 1]] * 3
    image = np.asarray(Image.open(data_set / "train" / "0-after.png")).transpose(2, 0, 1)
    network = frozen_network(start.model)
    assert network is not None
    with torch.no_grad():
        start.model.eval()
        seen = start.model.encoder.backbone(start.preprocessor(torch.from_numpy(image.copy())[None]))
        read = start.model.encoder.backbone(batch.after[:1].float())
    assert torch.allclose(seen, read, atol=1e-2)


def test_clip4idc_trains_on_features_and_learns_their_words(data_set: Path) -> None:
    source = {"kind": "features", "path": str(make_features(data_set, CLIP4IDC))}
    summary = run_stage(recipe(source, objective=CAPTION, model=CLIP4IDC), out=data_set.parent / "run", device="cpu")
    assert summary is not None
    assert summary["metric"] == "CIDEr-D"
    words = json.loads((data_set.parent / "run" / "best" / "tokenizer.json").read_text())["model"]["vocab"]
    assert {"house", "appears", "built"} <= set(words)


def test_idc_pcl_writes_negatives_for_mirrored_captions(data_set: Path) -> None:
    source = {"kind": "features", "path": str(make_features(data_set, IDC_PCL))}
    settings = recipe(source, objective={"kind": "pcl-pretrain", "negatives": [1, 1, 1]}, model=IDC_PCL)
    summary = run_stage(settings, out=data_set.parent / "run", device="cpu")
    assert summary is not None
    assert summary["finished"]


def test_features_cannot_be_repainted(data_set: Path) -> None:
    source = {"kind": "features", "path": str(make_features(data_set, CLIP4IDC))}
    settings = recipe(source, objective=CAPTION, model=CLIP4IDC, augment={"symmetries": True, "brightness": 0.1})
    with pytest.raises(ConfigError, match="symmetries"):
        run_stage(settings, out=data_set.parent / "run", device="cpu")
