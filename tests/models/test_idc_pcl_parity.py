"""Checkpoints made by the published layout's recipe must give the published IDC-PCL program's numbers."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.models.pcl_oracle import (
    IMAGE_SEEDS,
    MODELS,
    ORACLE,
    PLAIN,
    SHARP,
    features,
    generator,
    imported,
    near,
    one_or_two,
    padded,
    same_tensor,
)
from torch import Tensor

from spotchange.config.objectives import PclFinetuneSettings, PclPretrainSettings
from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import DecodingOptions
from spotchange.models.pcl_tokens import CLS, IMG1, IMG2, sinusoids
from spotchange.pairs import PairBatch
from spotchange.training.objectives import pcl_finetune
from spotchange.training.objectives.pcl_finetune import PclFinetuneObjective
from spotchange.training.objectives.pcl_losses import (
    HiddenCells,
    HiddenWords,
    aligned_scores,
    alignment_loss,
    cell_loss,
    cell_scores,
    class_contrast,
    class_losses,
    word_loss,
)
from spotchange.training.objectives.pcl_pretrain import PclPretrainObjective

HALF = {"mean": (0.5,) * 3, "std": (0.25,) * 3}
Build = Any


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Imported models by name and scale; the last few are kept."""
    folder = tmp_path_factory.mktemp("published")

    @lru_cache(maxsize=2)
    def made(name: str, scale: float) -> IdcPcl:
        return imported(name, scale, folder)

    return made


def cases(section: str) -> list[Any]:
    """Models that have a section, at the plain scale, and those that have it at the sharp one."""
    found = [(name, PLAIN, model[section]) for name, model in MODELS.items() if section in model]
    found += [(name, SHARP, model["sharp"][section]) for name, model in MODELS.items()
              if section in model.get("sharp", {})]  # fmt: skip
    return [pytest.param(*case, id=f"{case[0]}-{case[1]}") for case in found]


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_there(build: Build, name: str) -> None:
    assert sum(parameter.numel() for parameter in build(name, PLAIN).parameters()) == MODELS[name]["parameters"]


def test_position_table() -> None:
    truth = MODELS["pretrain_clevr"]
    table = sinusoids(200, truth["config"]["width"])
    for row, values in truth["position_table_first8"].items():
        near(table[int(row), :8], values)
    near(table[5, [100, 101, 510, 511]], truth["position_table_row5_at_100_101_510_511"])


@pytest.mark.parametrize(("name", "scale", "truth"), cases("embeddings"))
def test_embeddings(build: Build, name: str, scale: float, truth: dict[str, Any]) -> None:
    model = build(name, scale)
    projected = torch.sigmoid(model.words.cells(features()))
    for cell, values in truth["projected_img1_first8"].items():
        near(projected[:, 0, int(cell), :8], values)
    cells = model.words.of_cells(features())
    same_tensor(cells[:, 0], truth["img1"])
    same_tensor(cells[:, 1], truth["img2"])
    near(model.words.marks(1, [IMG1, IMG2, CLS])[0, :, :8], truth["cls_type1_3_5_first8"])
    same_tensor(model.words.of_words(padded(truth["text_ids"], name)), truth["text"])


def check_difference(model: IdcPcl, name: str, truth: dict[str, Any]) -> None:
    cells, state = one_or_two(model, name)
    alone = model.difference.alone(model._image_marks(cells), model.words.of_cells(cells))
    for key, image in (("single_img", 0), ("single_img1", 0), ("single_img2", 1)):
        if key in truth:
            same_tensor(alone[:, image], truth[key])
    same_tensor(state.tokens, truth["pair"])


@pytest.mark.parametrize(("name", "scale", "truth"), cases("difference_encoder"))
def test_difference_encoder(build: Build, name: str, scale: float, truth: dict[str, Any]) -> None:
    check_difference(build(name, scale), name, truth)


@pytest.mark.parametrize(("name", "scale", "truth"), cases("difference_encoder_pair"))
def test_difference_encoder_of_both(build: Build, name: str, scale: float, truth: dict[str, Any]) -> None:
    same_tensor(build(name, scale).encode_cells(features()).tokens, truth)


def check_words(logits: Tensor, targets: Tensor, truth: dict[str, Any]) -> None:
    """Scores and losses at the predicted places (places, vocabulary)."""
    near(logits[:, :8], truth["logits_first8"])
    if "logits_argmax" in truth:
        near(logits[:, -1], truth["logits_last"])
        near(logits.logsumexp(dim=-1), truth["logits_logsumexp"])
        assert logits.argmax(dim=-1).tolist() == truth["logits_argmax"]
        assert targets.tolist() == truth["targets"]
    near(F.cross_entropy(logits, targets, reduction="none"), truth["loss_per_token"])


@pytest.mark.parametrize(("name", "scale", "truth"), cases("mlm"))
@torch.no_grad()
def test_masked_words(build: Build, name: str, scale: float, truth: dict[str, Any]) -> None:
    model, given = build(name, scale), MODELS[name]["mlm"]
    ids, labels = padded(given["cap_ids"], name), padded(given["labels"], name, fill=-1)
    _, state = one_or_two(model, name)
    hidden = model.read_together(state, ids, ids != 0)
    same_tensor(hidden, truth["cross_output"])
    logits = model.word_logits(hidden, ids.shape[1])
    chosen = labels >= 0
    check_words(logits[chosen], labels[chosen], truth)
    near(word_loss(logits, labels.clamp(min=0), chosen)["loss"], truth["loss_mean"])


@pytest.mark.parametrize(("name", "scale", "truth"), cases("mvcl"))
@torch.no_grad()
def test_masked_cells(build: Build, name: str, scale: float, truth: dict[str, Any]) -> None:
    model, given = build(name, scale), MODELS[name]["mvcl"]
    cells, _ = one_or_two(model, name)
    hidden = torch.zeros(cells.shape[:3], dtype=torch.bool)
    for place, which in given["masked_cells"].items():
        sample, _, image = place.removeprefix("sample").partition("_image")
        hidden[int(sample), int(image or 1) - 1, which] = True
    shown = HiddenCells(cells=cells.masked_fill(hidden[..., None], 0), hidden=hidden)
    ids = padded(MODELS["pretrain_clevr"]["embeddings"]["text_ids"], name)
    objective = PclPretrainObjective(model, PclPretrainSettings(kind="pcl-pretrain"), **HALF)
    near(objective.guess_hidden(cells, shown, ids, ids != 0)["loss"], truth["loss_mean"])
    # The parts of that loss.
    outputs = model.read_together(model.encode_cells(shown.cells), ids, ids != 0)
    if "cross_output" in truth:
        same_tensor(outputs, truth["cross_output"])
    count = cells.shape[2]
    at_cells = torch.stack([outputs[:, 1 + i * (1 + count) : (1 + i) * (1 + count)] for i in range(cells.shape[1])], 1)
    guesses, others = model.guess_cells(at_cells[hidden]), model.guess_cells(at_cells[~hidden])
    near(guesses[:, :8], truth["prediction_first8"])
    scores = cell_scores(guesses, cells[hidden], others)
    assert scores.shape == (given["n_masked"], given["n_masked"] + given["n_unmasked"])
    near(scores[:, : len(guesses)], truth["score_with_all_masked_targets"])
    near(scores[:, len(guesses) :][:, :8], truth["score_with_unmasked_predictions_first8"])
    near(scores[:, len(guesses) :].sum(dim=1), truth["score_with_unmasked_predictions_rowsum"])
    near(F.cross_entropy(scores, torch.arange(len(guesses)), reduction="none"), truth["loss_per_cell"])
    if "prediction_norm" in truth:
        near(guesses.norm(dim=-1), truth["prediction_norm"])
        near(others[[0, 1, -1], :8], truth["unmasked_prediction_first8_rows_0_1_last"])


def texts_of_fda(name: str) -> Tensor:
    texts = MODELS["pretrain_clevr"]["fda"]["texts"]
    return torch.stack([padded(rows, name) for rows in texts])  # (pairs, sentences, words)


@pytest.mark.parametrize(("name", "scale", "truth"), cases("fda"))
@torch.no_grad()
def test_alignment(build: Build, name: str, scale: float, truth: dict[str, Any]) -> None:
    model, ids = build(name, scale), texts_of_fda(name)
    _, state = one_or_two(model, name)
    scores = aligned_scores(model, state, ids, ids != 0)
    near(scores, truth["cosines"])
    results = alignment_loss(scores, temperature=1.0)
    near(results["loss"], truth["loss_mean"])
    near(results["fda_accuracy"], truth["accuracy"])
    near(scores[:, 0].mean(), truth["mean_positive"])
    near(scores[:, 1:].mean(), truth["mean_negative"])


@torch.no_grad()
def test_matching_head(build: Build) -> None:
    model, truth = build("pretrain_clevr", PLAIN), MODELS["pretrain_clevr"]["unused_matching_head_itm_a"]
    state = model.encode_cells(features())
    ids = padded(MODELS["pretrain_clevr"]["embeddings"]["text_ids"], "pretrain_clevr")
    hidden = model.read_together(state, ids, ids != 0)
    marks = hidden[:, [0, 50, 100]].flatten(1)
    near(model.matching_head(marks), truth["logits"])


def test_losses_alone() -> None:
    truth = MODELS["pretrain_clevr"]
    chance = generator(IMAGE_SEEDS[0])
    guess, target, other = (torch.randn(rows, 16, generator=chance) for rows in (5, 5, 9))
    scores, own = cell_scores(guess, target, other), torch.arange(5)
    for temperature, name in ((1.0, "loss_per_cell"), (0.5, "loss_per_cell_temperature_half")):
        each = truth["mvcl_alone"][name]
        near(F.cross_entropy(scores / temperature, own, reduction="none"), each)
        near(cell_loss(guess, target, other, temperature=temperature)["loss"], sum(each) / 5)
    chance = generator(IMAGE_SEEDS[1])
    pairs, texts = (torch.randn(14, 16, generator=chance) for _ in range(2))
    cosines = F.cosine_similarity(pairs, texts).view(2, 7)
    near(alignment_loss(cosines, temperature=1.0)["loss"], truth["fda_alone"]["loss_mean"])
    near(alignment_loss(cosines, temperature=0.5)["loss"], truth["fda_alone"]["loss_mean_temperature_half"])


@pytest.mark.parametrize(("name", "scale", "truth"), cases("fgvc"))
@torch.no_grad()
def test_classes(build: Build, name: str, scale: float, truth: dict[str, Any]) -> None:
    model, given = build(name, scale), MODELS[name]["fgvc"]
    cells = features(4)
    class_ids = torch.tensor([given["class1"], given["class2"]]).T
    alone = model.images_alone(cells)
    together = model.image_outputs(model.encode_cells(cells).tokens)
    results = class_losses(model.class_heads, alone, together, class_ids, margin=MODELS[name]["config"]["margin"])
    by_image = alone.transpose(0, 1).flatten(0, 1)  # the oracle lists all first images, then all second ones
    near(model.class_heads.classify(by_image)[:, :8], truth["class_logits_first8"])
    near(model.class_heads.match(together.flatten(1)), truth["match_logits"])
    near(results["classification"], truth["classification_loss"])
    near(results["matching"], truth["matching_loss"])
    near(results["class_contrast"], truth["contrastive_loss"])
    if "total_loss" in truth:
        near(results["loss"], truth["total_loss"])
        near(by_image[:, :8], truth["single_first_token_first8_img1_then_img2"])
        vectors = torch.randn(8, 16, generator=generator(IMAGE_SEEDS[0]))
        labels = torch.tensor(truth["contrastive_alone"]["labels"])
        near(class_contrast(vectors, labels, margin=0.4), truth["contrastive_alone"]["loss"])
        near(class_contrast(vectors, labels, margin=0.0), truth["contrastive_alone"]["loss_margin_0"])


FINE_TUNING = [
    pytest.param(name, scale, MODELS[name]["causal"] if scale == PLAIN else MODELS[name]["sharp"], id=f"{name}-{scale}")
    for name in MODELS
    for scale in (PLAIN, SHARP)
    if "causal" in MODELS[name] and (scale == PLAIN or "loss_sum" in MODELS[name]["sharp"])
]


@pytest.mark.parametrize(("name", "scale", "truth"), FINE_TUNING)
@torch.no_grad()
def test_fine_tuning(
    build: Build, name: str, scale: float, truth: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, given = build(name, scale), MODELS[name]["causal"]
    if "difference_encoder" in truth:
        check_difference(model, name, truth["difference_encoder"])
    ids, labels = padded(given["cap_ids"], name), padded(given["labels"], name, fill=-1)
    state = model.encode_cells(features())
    hidden = model.read_causally(state, ids)
    same_tensor(hidden, truth["cross_output"])
    chosen = labels >= 0
    check_words(model.word_logits(hidden, ids.shape[1])[chosen], labels[chosen], truth)
    judged = "judge_logits" in truth
    if judged:
        near(model.verify_change(hidden), truth["judge_logits"])
        near(model.change_logits(state), truth["judge_logits"])
    # The objective itself, with the oracle's choice of words in place of a random one.
    monkeypatch.setattr(pcl_finetune, "hide_words", lambda *_, **__: HiddenWords(ids=ids, chosen=chosen))
    settings = PclFinetuneSettings(kind="pcl-finetune", judging=1.0 if judged else 0.0)
    objective = PclFinetuneObjective(model, settings, **HALF)
    objective.training = True  # without dropout, which belongs to the model's own mode
    cells = features()
    batch = PairBatch(
        before=cells[:, 0],
        after=cells[:, 1],
        caption_ids=torch.where(chosen, labels, ids),
        caption_mask=ids != 0,
        change_type=torch.tensor(given.get("judge_labels", [0, 0])),
        scene_id=torch.arange(2),
    )
    results = objective(batch)
    near(results["loss"], truth["total_loss"] if judged else truth["loss_sum"])
    if judged:
        near(results["words"], truth["loss_sum"])
        near(results["judging"], sum(truth["judge_loss_per_pair"]))


@pytest.mark.parametrize(("name", "scale", "truth"), cases("greedy"))
def test_greedy_ids(build: Build, name: str, scale: float, truth: dict[str, Any], tmp_path: Path) -> None:
    model = imported(name, scale, tmp_path)  # its bias is changed below
    with torch.no_grad():
        model.captioner.predict.bias[: len(ORACLE["ids"]) - 1] = -1000.0
    state = model.encode_cells(features())
    steps = len(truth["ids"][0]) - 1
    generated = model.generate(state, DecodingOptions(max_words=steps))
    assert [[1, *row] for row in generated.ids[:, 0].tolist()] == truth["ids"]
    with torch.no_grad():
        logits = model.caption_logits(state, torch.tensor(truth["ids"])[:, :-1])
    near(logits[:, 0, :8], truth["step1_logits_first8"])
    near(logits[:, -1, :8], truth["step12_logits_first8"])
    near(logits.amax(dim=-1), truth["max_logit_each_step"])
