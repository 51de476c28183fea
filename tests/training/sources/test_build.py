"""Every kind of data is one object with the same methods, and only `build` looks at the settings behind it."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import spotchange
from spotchange.config.training import Recipe
from spotchange.data.caption_ids import CaptionCoder
from spotchange.errors import ConfigError
from spotchange.training.sources.build import held_out_pairs, pairs_of, run_context, training_batches, training_source
from spotchange.training.sources.interface import NegativePlan
from spotchange.training.start import start_model

CAPTIONS = [f"a {color} house appears at the {side}" for color in ("red", "blue", "white") for side in ("left", "top")]
MODEL = {
    "preset": "idc-pcl-resnet50",
    "vision": {"resnet_depths": [1, 1, 1, 1], "resnet_channels": [8, 8, 8, 16], "image_size": [64, 64]},
    "text": {"width": 32, "context": 24},
    "captioner": {"width": 32, "heads": 2, "decoder_layers": 1},
    "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0},
}


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    chance = np.random.default_rng(0)
    for split in ("train", "val"):
        folder = tmp_path / "set" / split
        folder.mkdir(parents=True)
        lines = []
        for number, caption in enumerate(CAPTIONS):
            names = {}
            for side in ("before", "after"):
                names[f"{side}_file_name"] = f"{number}-{side}.png"
                pixels = chance.integers(0, 256, (64, 64, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / names[f"{side}_file_name"])
            lines.append({"id": str(number), **names, "captions": [caption, f"{caption} corner"]})
        (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path / "set"


def recipe(data: Any, **changes: Any) -> Recipe:
    objective = {"kind": "pcl-pretrain", "negatives": [1, 1, 0], "tasks": {"mlm": 0, "mvcl": 0, "fda": 1}}
    values = {
        "name": "sources",
        "model": MODEL,
        "data": data,
        "stage": {"objective": objective, "steps": 1, "pairs_per_step": 4, "max_words": 24, "new_words": True},
        "validation": {"pairs": 4, "pairs_per_batch": 2},
        **changes,
    }
    return Recipe.from_mapping(values, source="test")


def test_a_folder_offers_captions_held_out_pairs_and_batches(data_set: Path) -> None:
    settings = recipe(str(data_set))
    source = pairs_of(settings.data)
    assert list(source.captions()) == [text for each in CAPTIONS for text in (each, f"{each} corner")]
    run = run_context(settings, start_model(settings), device=torch.device("cpu"))
    held_out = held_out_pairs(settings, run)
    assert held_out is not None
    assert [len(batch) for batch in held_out.batches] == [2, 2]
    assert held_out.references[1] == [CAPTIONS[1], f"{CAPTIONS[1]} corner"]
    batch = source.batches(run, 4).next_batch()
    coder = run.coder()
    for ids, (row, place) in zip(batch.caption_ids.tolist(), batch.caption_place.tolist(), strict=True):
        assert coder.text(ids) == [CAPTIONS[row], f"{CAPTIONS[row]} corner"][place]


def test_data_without_a_validation_split_hold_nothing_out(data_set: Path) -> None:
    (data_set / "val" / "metadata.jsonl").unlink()
    settings = recipe(str(data_set))
    run = run_context(settings, start_model(settings), device=torch.device("cpu"))
    assert held_out_pairs(settings, run) is None
    named = recipe(str(data_set), validation={"data": str(data_set), "pairs": 3, "pairs_per_batch": 4})
    found = held_out_pairs(named, run)  # named for validation, its own pairs are meant
    assert found is not None
    assert [len(batch) for batch in found.batches] == [3]


def test_an_fda_step_makes_text_into_ids_once(data_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = recipe({"kind": "dataset", "path": str(data_set), "workers": 0})  # none prepared ahead
    batches = training_batches(settings, run_context(settings, start_model(settings), device=torch.device("cpu")))
    encoded: list[str] = []
    ids_of = CaptionCoder.ids

    def counted(self: CaptionCoder, captions: Any) -> Any:
        encoded.extend(captions)
        return ids_of(self, captions)

    def refused(self: CaptionCoder, ids: Any) -> str:
        raise AssertionError("a step must not read its captions back from ids")

    monkeypatch.setattr(CaptionCoder, "ids", counted)
    monkeypatch.setattr(CaptionCoder, "text", refused)
    batch = batches.next_batch()
    assert batch.task == "fda"
    assert batch.negative_ids.shape[:2] == (4, 2)
    assert len(encoded) <= 4 + 4 * 2  # the captions, and two negatives of each
    for own, negatives in zip(batch.pairs.caption_ids.tolist(), batch.negative_ids.tolist(), strict=True):
        assert own not in negatives


def test_mirrored_captions_have_negatives_of_their_own(data_set: Path) -> None:
    settings = recipe(str(data_set), augment={"symmetries": True})
    batches = training_batches(settings, run_context(settings, start_model(settings), device=torch.device("cpu")))
    batch = batches.next_batch()
    assert batch.pairs.caption_place is None  # no longer a caption of the set
    assert batch.negative_ids.shape[:2] == (4, 2)


def test_a_mixture_is_built_of_the_same_objects(data_set: Path) -> None:
    sources = [{"kind": "dataset", "path": str(data_set)}, {"kind": "dataset", "path": str(data_set), "split": "val"}]
    settings = recipe({"kind": "mix", "sources": sources}, stage={"objective": {"kind": "pcl-finetune"}, "steps": 1})
    source = training_source(settings)
    assert len(list(source.captions())) == 2 * 2 * len(CAPTIONS)
    run = run_context(settings, start_model(settings), device=torch.device("cpu"))
    with pytest.raises(ConfigError, match="no hard negatives"):
        source.negatives(run, NegativePlan(counts=(1, 1, 1)))


def test_only_build_tells_data_settings_apart() -> None:
    kinds = {"StreamSource", "DatasetSource", "FeatureSource", "EverydaySource", "MixedSource"}
    found = []
    package = Path(spotchange.__file__).parent
    for path in package.rglob("*.py"):
        if path == package / "training" / "sources" / "build.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                found += [f"{path.name}:{node.lineno}"] if names & kinds else []
    assert found == []
