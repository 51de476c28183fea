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
MODEL: dict[str, Any] = {
    "preset": "idc-pcl-resnet50",
    "vision": {"resnet_depths": [1, 1, 1, 1], "resnet_channels": [8, 8, 8, CHANNELS], "image_size": [64, 96]},
    "text": {"width": 32, "context": 16},
    "captioner": {"width": 32, "heads": 2, "decoder_layers": 2, "dropout": 0.0},
    "vocabulary": {"size": 40, "begin": 1, "end": 2, "pad": 0},
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
    return PclPretrainObjective(build(), PclPretrainSettings(kind="pcl-pretrain", classes=5, **settings), **HALF)


@pytest.mark.parametrize(
    ("task", "moved", "still"),
    [
        (MLM, ["model.captioner.predict.dense.weight", "model.captioner.mask_vector"], ["cell_head.weight"]),
        (MVCL, ["cell_head.weight", "model.difference.input.weight"], ["model.captioner.predict.dense.weight"]),
        (FDA, ["model.captioner.class_vector", "model.difference.image_vector"], ["cell_head.weight"]),
        (CLASSES, ["class_heads.classify.weight", "class_heads.match.weight"], ["model.captioner.class_vector"]),
    ],
)
def test_gradients_reach_what_they_should(task: str, moved: list[str], still: list[str]) -> None:
    torch.manual_seed(1)
    objective = pretraining()
    objective(batch_of(task))["loss"].backward()
    gradients = {name: parameter.grad for name, parameter in objective.named_parameters()}
    for name in [
        *moved,
        "model.difference.pair.0.attention.output.weight",
        "model.captioner.blocks.1.feed_forward_norm.weight",
    ]:
        assert gradients[name] is not None, name
        assert float(gradients[name].abs().sum()) > 0, name
    for name in [*still, "model.change_head.weight"]:
        assert gradients[name] is None, name
    assert all(value is None for name, value in gradients.items() if name.startswith("model.encoder."))


def test_single_pictures_ignore_the_second() -> None:
    objective = pretraining().eval()
    batch = batch_of(MLM, single=True)
    other = replace(batch, pairs=replace(batch.pairs, after=torch.zeros_like(batch.pairs.after)))
    with torch.no_grad():
        assert torch.equal(objective(batch)["loss"], objective(other)["loss"])
        whole = objective(replace(batch, single=False))["loss"]
        assert not torch.equal(whole, objective(replace(other, single=False))["loss"])


def test_mvcl_guesses_stand_at_the_hidden_cells() -> None:
    """With a head that copies outputs, changing the output at any other place must not change the loss."""
    objective = pretraining().eval()
    batch = batch_of(MVCL)
    read = objective.model.read_together
    touched: list[torch.Tensor] = []

    def spoiled(state, ids, mask, *rest, **options):  # every place but the hidden cells becomes noise
        hidden = read(state, ids, mask, *rest, **options)
        zero = (shown[0] == 0).all(dim=-1)  # (pairs, pictures, cells)
        keep = torch.cat([torch.zeros_like(zero[..., :1]), zero], dim=2).flatten(1)
        keep = torch.cat([keep, torch.zeros(len(keep), hidden.shape[1] - keep.shape[1], dtype=torch.bool)], dim=1)
        touched.append(keep)
        return torch.where(keep[..., None], hidden, torch.randn_like(hidden))

    shown: list[torch.Tensor] = []
    encode = objective.model.encode_cells
    objective.model.encode_cells = lambda cells: (shown.append(cells), encode(cells))[1]  # type: ignore[method-assign]
    with torch.no_grad():
        expected = objective(batch)["loss"]
        shown.clear()
        objective.model.read_together = spoiled  # type: ignore[method-assign]
        assert torch.allclose(objective(batch)["loss"], expected)
    assert int(touched[0].sum()) == len(batch)  # one of six cells each


def test_validation_hides_the_same_words_each_time() -> None:
    objective = pretraining().eval()
    with torch.no_grad():
        assert torch.equal(objective(features())["loss"], objective(features())["loss"])


def test_classes_need_their_number() -> None:
    objective = PclPretrainObjective(build(), PclPretrainSettings(kind="pcl-pretrain"), **HALF)
    with pytest.raises(ConfigError, match=r"set stage\.objective\.classes"):
        objective(batch_of(CLASSES))


def test_other_models_are_refused(tiny_model) -> None:
    with pytest.raises(ConfigError, match="idc-pcl only"):
        PclPretrainObjective(tiny_model, PclPretrainSettings(kind="pcl-pretrain"), **HALF)


def test_judging_is_two_way_and_reads_pictures_alone() -> None:
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
    optimizer = torch.optim.AdamW(objective.parameters(), lr=1e-3)
    for _ in range(400 if positions == "masked" else 150):
        optimizer.zero_grad()
        objective(batch)["loss"].backward()
        optimizer.step()
    objective.eval()
    with torch.no_grad():
        assert float(objective(batch)["judging_accuracy"]) == 1.0
        state = objective.encode(batch.before, batch.after)
        words = objective.model.generate(state, DecodingOptions(max_words=10)).ids[:, 0]
    assert words[:, :5].tolist() == batch.caption_ids[:, 1:6].tolist()
    assert (words[:, 5:] == 0).all()  # the end was found, too
