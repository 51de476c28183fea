"""The objective of the published systems: half change and half distractor, auxiliary losses by name, the exchange."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from spotchange.config.model import ModelSettings
from spotchange.config.objectives import BaselineObjectiveSettings
from spotchange.errors import ConfigError
from spotchange.language.vocabulary import TOKENS, build_tokenizer
from spotchange.models.baselines.build import SYSTEMS
from spotchange.models.baselines.skeleton import Baseline
from spotchange.models.build import build_model, preprocessor_for
from spotchange.models.interface import DecodingOptions
from spotchange.models.weights.folder import load_model, save_model
from spotchange.pairs import PairBatch
from spotchange.training.objectives.baseline import BaselineObjective, exchange_distractors

CELLS, CHANNELS = 24, 32
SMALL = {"width": 32, "hidden": 32, "word": 12}


def settings(system: str, sizes: dict[str, int] | None = None) -> ModelSettings:
    values = {
        "preset": "baseline",
        "vision": {"image_size": [64, 96], "resnet_depths": [1, 1, 1, 1], "resnet_channels": [16, 16, CHANNELS, 32]},
        "baseline": {"system": system, "sizes": sizes or {}},
    }
    return ModelSettings.from_mapping(values, source="test")


def batch(pairs: int = 4) -> PairBatch:
    generator = torch.Generator().manual_seed(2)
    before = torch.rand(pairs // 2, CELLS, CHANNELS, generator=generator).repeat_interleave(2, dim=0)
    ids = torch.tensor([[1, 20, 31, 12, 2, 0], [1, 40, 41, 2, 0, 0]]).repeat(pairs // 2, 1)
    return PairBatch(
        before=before.half(),
        after=torch.rand(pairs, CELLS, CHANNELS, generator=generator).half(),
        caption_ids=ids,
        caption_mask=ids != 0,
        change_type=torch.tensor([1, 0]).repeat(pairs // 2),
        scene_id=torch.arange(pairs) // 2,
    )


def objective(system: str, sizes: dict[str, int] | None = None, **own: object) -> BaselineObjective:
    torch.manual_seed(1)
    model = build_model(settings(system, sizes))
    assert isinstance(model, Baseline)
    model.system.take_words(list(TOKENS))
    wanted = BaselineObjectiveSettings.from_mapping({"kind": "baseline", **own}, source="test")
    return BaselineObjective(model, wanted, paired=True, mean=(0.5,) * 3, std=(0.5,) * 3)


@pytest.mark.parametrize("system", ["duda", "rel-att", "scorer-cbr", "r3net", "vam-plus"])
def test_a_system_learns_a_batch_by_heart(system: str) -> None:
    sizes = {"duda": {"hidden": 32, "word": 12}, "rel-att": {"hidden": 32, "word": 12}}.get(system, SMALL)
    trained = objective(system, sizes if system != "scorer-cbr" else {"width": 32, "word": 12}, swap=0.0).train()
    optimizer = torch.optim.Adam([p for p in trained.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(12):
        results = trained(batch())
        assert set(trained.model.system.weights) <= set(results)
        results["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        trained.after_step()
        losses.append(float(results["words"]))
    assert losses[-1] < 0.8 * losses[0]


def test_change_and_distractor_words_count_half_each() -> None:
    trained = objective("duda", {"hidden": 16, "word": 8}, swap=0.0, weights={"map_sum": 0, "entropy": 0})
    for module in trained.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    trained.train()
    whole = batch()
    total = float(trained(whole)["loss"].detach())
    parts = []
    for rows in (slice(0, None, 2), slice(1, None, 2)):
        alone = whole[rows]
        with torch.no_grad():
            state = trained.encode(alone.before, alone.after)
            logits = trained.model.caption_logits(state, alone.caption_ids[:, :-1])
            losses = trained.word_losses(logits, alone.caption_ids[:, 1:])
        counted = alone.caption_mask[:, 1:]
        parts.append(float((losses * counted).sum() / counted.sum()))
    assert parts[0] != pytest.approx(parts[1], rel=1e-3)
    assert total == pytest.approx(sum(parts) / 2, rel=1e-5)


def test_exchanging_moves_the_same_images_in_both_rows() -> None:
    given = batch()
    swapped = exchange_distractors(given, 1.0)
    assert torch.equal(swapped.before[0], given.after[1])
    assert torch.equal(swapped.before[1], given.after[1])
    assert torch.equal(swapped.after[0], given.after[0])
    assert torch.equal(swapped.after[1], given.before[0])
    assert torch.equal(exchange_distractors(given, 0.0).before, given.before)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no loss is called mtm; there are: map_sum, entropy"):
        objective("duda", weights={"mtm": 1.0})
    with pytest.raises(ConfigError, match="unknown system 'dudu'"):
        build_model(settings("dudu"))
    with pytest.raises(ConfigError, match=r"has no depth; there are: .*hidden"):
        build_model(settings("duda", {"depth": 3}))


@pytest.mark.parametrize("system", ["duda", "r3net", "nct", "mccformers-s"])
def test_a_model_folder_says_the_same_again(system: str, tmp_path: Path) -> None:
    sizes = {"hidden": 32, "word": 12} if system == "duda" else {"width": 32}
    model = objective(system, sizes).model.eval()
    wanted = settings(system, sizes)
    save_model(
        tmp_path / "model",
        model=model,
        settings=wanted,
        tokenizer=build_tokenizer(),
        preprocessor=preprocessor_for(wanted),
    )
    again = load_model(tmp_path / "model").model
    images = torch.rand(2, 2, 3, 64, 96, generator=torch.Generator().manual_seed(4))
    said = []
    for each in (model, again):
        with torch.inference_mode():
            state = each.encode(images[0], images[1])
            heat = each.heatmap(state)
            assert heat.shape == (2, 2, 4, 6)
            assert 0 <= float(heat.min()) <= float(heat.max()) <= 1
            said.append(each.generate(state, DecodingOptions(method="beam", beams=2, candidates=2, max_words=5)).ids)
    assert torch.equal(*said)


def test_every_system_has_a_recipe_and_a_title() -> None:
    from spotchange.config.recipes import RECIPES

    assert {path.stem for path in (RECIPES / "baselines").glob("*.yaml")} == set(SYSTEMS)
    assert len({kind.title for kind in SYSTEMS.values()}) == len(SYSTEMS)
