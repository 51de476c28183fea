"""IDC-PCL's stages: what each task reads and moves, and that words and judging can be learnt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from spotchange.config.model import ModelSettings
from spotchange.config.objectives import PclFinetuneSettings, PclPretrainSettings
from spotchange.errors import ConfigError
from spotchange.models.build import build_model
from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import DecodingOptions
from spotchange.pairs import PairBatch
from spotchange.training.objectives.pcl_finetune import PclFinetuneObjective
from spotchange.training.objectives.pcl_pretrain import PclPretrainObjective
from spotchange.training.sources.tasks import CLASSES, FDA, MLM, MVCL, TaskBatch

HALF = {"mean": (0.5,) * 3, "std": (0.25,) * 3}
CHANNELS, CELLS = 8, 6
CROSS = "model.captioner.blocks.1.feed_forward_norm.weight"
MODEL: dict[str, Any] = {
    "preset": "idc-pcl-resnet50",
    "vision": {"resnet_depths": [1, 1, 1, 1], "resnet_channels": [8, 8, 8, CHANNELS], "image_size": [64, 96]},
    "text": {"width": 32, "context": 16},
    "captioner": {"width": 32, "heads": 2, "decoder_layers": 2, "dropout": 0.0},
    "heads": {"pretraining": True, "classes": 5},
    "vocabulary": {"size": 40, "begin": 1, "end": 2, "pad": 0, "mask": 4, "class_mark": 5},
}


def build(**changes: Any) -> IdcPcl:
    torch.manual_seed(0)
    model = build_model(ModelSettings.model_validate(MODEL | changes))
    assert isinstance(model, IdcPcl)
    return model


def features(pairs: int = 6, words: int = 7) -> PairBatch:
    """Grid features and sentences; even rows change, odd ones do not."""
    draw = torch.Generator().manual_seed(3)
    before, after = torch.rand(2, pairs, CELLS, CHANNELS, generator=draw)
    ids = torch.randint(8, 40, (pairs, words), generator=draw)
    ids[:, 0], ids[:, -1] = 1, 2
    return PairBatch(
        before=before.half(),
        after=after.half(),
        caption_ids=ids,
        caption_mask=torch.ones_like(ids, dtype=torch.bool),
        change_type=torch.arange(pairs) % 2 * -3 + 3,
        scene_id=torch.arange(pairs) // 2,
    )


def batch_of(task: str, **extra: Any) -> TaskBatch:
    pairs = features()
    if task == FDA:
        negatives = torch.randint(8, 40, (len(pairs), 6, 7))
        extra |= {"negative_ids": negatives, "negative_mask": torch.ones_like(negatives, dtype=torch.bool)}
    if task == CLASSES:
        extra["class_ids"] = torch.randint(0, 5, (len(pairs), 2))
    return TaskBatch(task=task, pairs=pairs, **extra)


def pretraining(**settings: Any) -> PclPretrainObjective:
    return PclPretrainObjective(build(), PclPretrainSettings(kind="pcl-pretrain", **settings), **HALF)


@pytest.mark.parametrize(
    ("task", "moved", "still"),
    [
        (MLM, ["model.captioner.predict.weight", CROSS], ["model.cell_head.inner.weight", "model.change_head.weight"]),
        (MVCL, ["model.cell_head.bias", "model.words.cells.weight", CROSS], ["model.captioner.predict.weight"]),
        (FDA, ["model.words.types", CROSS], ["model.cell_head.inner.weight", "model.captioner.predict.weight"]),
        (CLASSES, ["model.class_heads.classify.weight", "model.class_heads.match.weight"], [CROSS]),
    ],
)
def test_gradients_reach_what_they_should(task: str, moved: list[str], still: list[str]) -> None:
    torch.manual_seed(1)
    objective = pretraining()
    objective(batch_of(task))["loss"].backward()
    gradients = {name: parameter.grad for name, parameter in objective.named_parameters()}
    for name in [*moved, "model.difference.pair.blocks.0.attention.output.weight"]:
        assert gradients[name] is not None, name
        assert float(gradients[name].abs().sum()) > 0, name
    for name in [*still, "model.matching_head.weight"]:
        assert gradients[name] is None, name
    assert all(value is None for name, value in gradients.items() if name.startswith("model.encoder."))


def test_single_images_ignore_the_second() -> None:
    objective = pretraining().eval()
    batch = batch_of(MLM, single=True)
    other = replace(batch, pairs=replace(batch.pairs, after=torch.zeros_like(batch.pairs.after)))
    with torch.no_grad():
        assert torch.equal(objective(batch)["loss"], objective(other)["loss"])
        whole = objective(replace(batch, single=False))["loss"]
        assert not torch.equal(whole, objective(replace(other, single=False))["loss"])


def test_mvcl_reads_the_outputs_at_cells_alone() -> None:
    """Noise at every other place ([IMG], [CLS], words) must not change the loss; noise at a cell must."""
    objective = pretraining().eval()
    batch = batch_of(MVCL)
    read = objective.model.read_together
    is_cell = torch.tensor(([False] + [True] * CELLS) * 2 + [False] * (1 + batch.pairs.caption_ids.shape[1]))

    def loss_with_noise(where: torch.Tensor) -> torch.Tensor:
        def spoiled(*arguments: Any) -> torch.Tensor:
            hidden = read(*arguments)
            return torch.where(where[:, None], torch.randn_like(hidden), hidden)

        objective.model.read_together = spoiled  # type: ignore[method-assign]
        with torch.no_grad():
            return objective(batch)["loss"]

    expected = loss_with_noise(torch.zeros_like(is_cell))
    assert torch.allclose(loss_with_noise(~is_cell), expected)
    assert not torch.allclose(loss_with_noise(is_cell), expected)


def test_validation_hides_the_same_words_each_time() -> None:
    objective = pretraining().eval()
    with torch.no_grad():
        assert torch.equal(objective(features())["loss"], objective(features())["loss"])


def test_classes_need_their_number() -> None:
    without = build(heads={"pretraining": True})
    objective = PclPretrainObjective(without, PclPretrainSettings(kind="pcl-pretrain"), **HALF)
    with pytest.raises(ConfigError, match=r"set model\.heads\.classes"):
        objective(batch_of(CLASSES))


def test_masked_cells_need_their_head() -> None:
    with pytest.raises(ConfigError, match=r"set model\.heads\.pretraining"):
        PclPretrainObjective(build(heads={"change": True}), PclPretrainSettings(kind="pcl-pretrain"), **HALF)


def test_other_models_are_refused(tiny_model) -> None:
    with pytest.raises(ConfigError, match="idc-pcl only"):
        PclPretrainObjective(tiny_model, PclPretrainSettings(kind="pcl-pretrain"), **HALF)


def test_judging_is_two_way_and_reads_images_alone() -> None:
    objective = PclFinetuneObjective(build(), PclFinetuneSettings(kind="pcl-finetune"), **HALF).eval()
    batch = features()
    with torch.no_grad():
        results = objective(batch)
        logits = objective.model.change_logits(objective.encode(batch.before, batch.after))
        expected = torch.nn.functional.cross_entropy(logits, (batch.change_type != 0).long())
    assert set(batch.change_type.tolist()) == {0, 3}
    assert float(results["judging"]) == pytest.approx(float(expected), rel=1e-5)
    assert float(results["loss"]) == pytest.approx(float(results["words"] + results["judging"]), rel=1e-6)


def test_pairs_of_unknown_kind_are_not_judged() -> None:
    objective = PclFinetuneObjective(build(), PclFinetuneSettings(kind="pcl-finetune"), **HALF)
    results = objective(replace(features(), change_type=torch.full((6,), -1)))
    assert float(results["judging"].detach()) == 0.0


def test_training_sums_over_words_and_pairs_or_takes_means() -> None:
    batch, results = features(), {}
    for reduction in ("sum", "mean"):
        torch.manual_seed(3)
        settings = PclFinetuneSettings(kind="pcl-finetune", positions="every", reduction=reduction)
        objective = PclFinetuneObjective(build(), settings, **HALF)
        results[reduction] = {name: float(value.detach()) for name, value in objective(batch).items()}
    words = int(batch.caption_mask[:, 1:].sum())
    assert results["sum"]["words"] == pytest.approx(words * results["mean"]["words"], rel=1e-5)
    assert results["sum"]["judging"] == pytest.approx(len(batch) * results["mean"]["judging"], rel=1e-5)


def test_without_judging_its_head_stays_still() -> None:
    settings = PclFinetuneSettings(kind="pcl-finetune", judging=0.0)
    objective = PclFinetuneObjective(build(), settings, **HALF)
    objective(features())["loss"].backward()
    assert objective.model.change_head.weight.grad is None
    without = build(heads={"change": False})
    with pytest.raises(ConfigError, match=r"model\.heads\.change"):
        PclFinetuneObjective(without, PclFinetuneSettings(kind="pcl-finetune"), **HALF)


@pytest.mark.parametrize("positions", ["masked", "every"])
def test_sentences_are_learnt_by_heart_and_decoded(positions: str) -> None:
    settings = PclFinetuneSettings(kind="pcl-finetune", positions=positions, masked_words=0.3)
    objective, batch = PclFinetuneObjective(build(), settings, **HALF), features(pairs=2)
    optimizer = torch.optim.AdamW(objective.parameters(), lr=3e-3)
    # Of the same sentences sixteen times, each time other words are masked.
    copies = 16 if positions == "masked" else 1
    names = ("before", "after", "caption_ids", "caption_mask", "change_type", "scene_id")
    often = replace(batch, **{name: torch.cat([getattr(batch, name)] * copies) for name in names})
    for _ in range(250):
        optimizer.zero_grad()
        objective(often)["loss"].backward()
        optimizer.step()
    objective.eval()
    with torch.no_grad():
        assert float(objective(batch)["judging_accuracy"]) == 1.0
        state = objective.encode(batch.before, batch.after)
        words = objective.model.generate(state, DecodingOptions(max_words=10)).ids[:, 0]
    assert words[:, :5].tolist() == batch.caption_ids[:, 1:6].tolist()
    assert (words[:, 5:] == 0).all()  # the end was found, too
