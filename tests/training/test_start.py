"""Beginning from saved weights: what is taken over, what is new, and fine-tuning on pairs from disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from spotchange.config.model import ModelSettings
from spotchange.config.recipes import find_recipe
from spotchange.config.training import Recipe
from spotchange.errors import InputError, ModelError
from spotchange.language.vocabulary import TOKENS, build_tokenizer
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.weights.bundled import bundled_folder
from spotchange.models.weights.folder import load_model, save_model
from spotchange.training.log import read_log
from spotchange.training.run import HEADS_FILE, run_stage
from spotchange.training.start import extended, start_model


@pytest.fixture
def saved(tiny_model, tiny_settings: ModelSettings, tmp_path: Path) -> Path:
    """A model folder with random weights."""
    save_model(
        tmp_path / "saved",
        model=tiny_model,
        settings=tiny_settings,
        tokenizer=build_tokenizer(),
        preprocessor=Preprocessor(image_size=(24, 36)),
    )
    return tmp_path / "saved"


def write_pairs(folder: Path, split: str, pairs: int) -> None:
    """Random images, with captions that use words no scene has."""
    draw = np.random.default_rng(len(split))
    (folder / split).mkdir(parents=True)
    rows = []
    for pair in range(pairs):
        names = {}
        for side in ("before", "after"):
            names[f"{side}_file_name"] = f"{pair}-{side}.png"
            pixels = draw.integers(0, 256, (24, 36, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / split / names[f"{side}_file_name"])
        captions = ["the black car drove away", "a pedestrian has disappeared"]
        rows.append({"id": f"{split}-{pair}", **names, "captions": captions, "change_type": "drop"})
    (folder / split / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def recipe(start: Path, data: Any, **stage: Any) -> Recipe:
    settings = {"objective": {"kind": "caption"}, "steps": 4, "pairs_per_step": 4, "start_from": str(start)}
    return Recipe.from_mapping(
        {
            "name": "finetune",
            "data": str(data),
            "stage": {**settings, **stage},
            "validation": {"every": 2, "pairs": 4, "pairs_per_batch": 4},
            "checkpoints": {"every": 2},
            "log": {"every": 1},
        },
        source="test",
    )


def test_weights_are_taken_over_as_they_are(saved: Path) -> None:
    start = start_model(recipe(saved, "stream"))
    expected = load_model(saved).model.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in start.model.state_dict().items())
    assert not start.fresh


def test_another_split_of_blocks_moves_them_and_starts_new_parts_fresh(saved: Path, tiny_settings) -> None:
    old = load_model(saved).model
    values = tiny_settings.model_dump(mode="json")
    values["vision"]["n_inter"] = 2
    values["captioner"]["decoder_layers"] = 2
    wanted = recipe(saved, "stream").model_copy(update={"model": ModelSettings.model_validate(values)})
    start = start_model(wanted)
    assert torch.equal(
        start.model.encoder.inter[0].attention.output.weight, old.encoder.backbone.blocks[0].attention.output.weight
    )
    assert torch.equal(
        start.model.encoder.inter[1].attention.output.weight, old.encoder.inter[0].attention.output.weight
    )
    assert start.fresh
    assert all(name.startswith("captioner.decoder.1.") for name in start.fresh)


def test_new_words_are_added_behind_the_known(saved: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "data", "train", 4)
    start = start_model(recipe(saved, tmp_path / "data", new_words=True))
    assert [start.tokenizer.id_to_token(i) for i in range(len(TOKENS))] == list(TOKENS)
    fresh = [start.tokenizer.id_to_token(i) for i in range(len(TOKENS), start.tokenizer.get_vocab_size())]
    assert fresh == ["away", "black", "car", "drove", "pedestrian"]
    old, new = load_model(saved).model.words.words.weight, start.model.words.words.weight
    assert new.shape[0] == len(TOKENS) + 5
    assert torch.equal(new[: len(TOKENS)], old)
    assert start.tokenizer.decode(start.tokenizer.encode("the black car drove away").ids) == "the black car drove away"


def test_rare_words_stay_unknown() -> None:
    tokenizer = extended(build_tokenizer(), ["a lamp fell", "a lamp rose"])
    assert tokenizer.token_to_id("lamp") is not None
    assert tokenizer.token_to_id("fell") is None


def test_fine_tuning_on_pairs_from_disk(saved: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "data", "train", 6)
    write_pairs(tmp_path / "data", "val", 4)
    summary = run_stage(recipe(saved, tmp_path / "data", new_words=True), out=tmp_path / "out", device="cpu")
    assert summary["finished"]
    assert summary["metric"] == "CIDEr-D"
    assert [line["step"] for line in read_log(tmp_path / "out" / "log.jsonl") if line["kind"] == "validation"] == [2, 4]
    tuned = load_model(tmp_path / "out" / "best")
    assert tuned.tokenizer.token_to_id("pedestrian") is not None
    assert (tmp_path / "out" / "best" / "recipe.yaml").is_file()
    for left in ("last", "best"):  # either would be replaced
        with pytest.raises(InputError, match="already holds a run"):
            run_stage(recipe(saved, tmp_path / "data"), out=tmp_path / "out", device="cpu")
        shutil.rmtree(tmp_path / "out" / left)


def test_fine_tuning_goes_on_from_weights_of_eight_bits(saved: Path, tmp_path: Path) -> None:
    loaded, small = load_model(saved), tmp_path / "small"
    save_model(
        small,
        model=loaded.model,
        settings=loaded.settings,
        tokenizer=loaded.tokenizer,
        preprocessor=loaded.preprocessor,
        stored="int8",
    )
    start = start_model(recipe(small, "stream"))
    expected = load_model(small).model.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in start.model.state_dict().items())
    write_pairs(tmp_path / "data", "train", 4)
    run_stage(recipe(small, tmp_path / "data"), out=tmp_path / "out", device="cpu")
    tuned = load_model(tmp_path / "out" / "best").model.state_dict()  # stored as every trained model is, in fp32
    assert any(not torch.equal(value, expected[name]) for name, value in tuned.items())
    assert not any(name.endswith(".scale") for name in load_file(tmp_path / "out" / "best" / "model.safetensors"))


def test_without_a_validation_split_the_newest_is_the_best(saved: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "data", "train", 4)
    summary = run_stage(recipe(saved, tmp_path / "data"), out=tmp_path / "out", device="cpu")
    assert summary["best"] is None
    best, last = (load_model(tmp_path / "out" / name).model.state_dict() for name in ("best", "last"))
    assert all(torch.equal(best[name], last[name]) for name in last)


def test_heads_for_training_go_on_with_the_next_stage(saved: Path, tmp_path: Path, monkeypatch) -> None:
    write_pairs(tmp_path / "data", "train", 4)
    dense = {"objective": {"kind": "caption", "dense": {"attributes": 0, "mask": 0, "answer": 0}}}
    first, second = tmp_path / "first", tmp_path / "second"
    run_stage(recipe(saved, tmp_path / "data", **dense), out=first, device="cpu")
    again = recipe(first / "last", tmp_path / "data", **dense)
    frozen = again.model_copy(update={"optimizer": again.optimizer.model_copy(update={"lr": 1e-30})})
    run_stage(frozen, out=second, device="cpu")
    heads = [load_file(folder / "last" / HEADS_FILE)["truth.attribute_head.weight"] for folder in (first, second)]
    assert torch.equal(*heads)


def test_a_missing_start_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        start_model(recipe(tmp_path / "nothing" / "here.pt", "stream"))


def test_the_wide_recipe_goes_on_with_the_shipped_model_and_its_text_tower() -> None:
    start = start_model(Recipe.from_yaml(find_recipe("small/wide")))
    shipped = load_model(bundled_folder())
    for part in ("architecture", "text", "vision", "captioner", "heads"):
        assert getattr(start.settings, part) == getattr(shipped.settings, part)
    assert not start.fresh
    state = start.model.state_dict()
    for name, value in shipped.model.state_dict().items():
        torch.testing.assert_close(state[name], value)
