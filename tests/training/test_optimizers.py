"""Every parameter gets the rate and the decay meant for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from spotchange.config.recipes import RECIPES
from spotchange.config.training import OptimizerSettings, Recipe
from spotchange.errors import ConfigError
from spotchange.models.build import build_model
from spotchange.training.optimizers import build_optimizer, parameter_groups, set_rates


class Whole(nn.Module):
    """Names as an objective has them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.head = nn.Linear(4, 2)


def found(module: nn.Module, settings: OptimizerSettings) -> dict[str, tuple[float, float]]:
    """Learning rate and decay by name."""
    names = {id(value): name for name, value in module.named_parameters()}
    return {
        names[id(value)]: (group["lr"], group["weight_decay"])
        for group in parameter_groups(module, settings)
        for value in group["params"]
    }


def test_first_fitting_pattern_wins(tiny_model: nn.Module) -> None:
    settings = OptimizerSettings(lr=1e-4, part_lrs={"encoder.inter.*": 3e-6, "encoder.*": 1e-7}, weight_decay=0.2)
    rates = found(Whole(tiny_model), settings)
    assert rates["model.encoder.inter.0.attention.output.weight"] == (3e-6, 0.2)
    assert rates["model.encoder.projection.weight"] == (1e-7, 0.2)
    assert rates["head.weight"] == (1e-4, 0.2)


def test_vectors_positions_and_temperature_do_not_decay(tiny_model: nn.Module) -> None:
    rates = found(Whole(tiny_model), OptimizerSettings(weight_decay=0.1))
    for name, (_, decay) in rates.items():
        bare = name.rpartition(".")[2]
        if bare in ("bias", "class_token", "logit_scale", "joint_positions", "positions", "before_vector"):
            assert decay == 0.0, name
    assert rates["model.encoder.projection.weight"][1] == 0.1


def test_rate_zero_freezes(tiny_model: nn.Module) -> None:
    rates = found(Whole(tiny_model), OptimizerSettings(part_lrs={"encoder.*": 0.0}))
    assert not any(name.startswith("model.encoder.") for name in rates)
    assert not tiny_model.encoder.projection.weight.requires_grad


def test_a_pattern_that_fits_nothing_is_refused(tiny_model: nn.Module) -> None:
    with pytest.raises(ConfigError, match="encodr"):
        parameter_groups(Whole(tiny_model), OptimizerSettings(part_lrs={"encodr.*": 1e-7}))


def test_everything_frozen_is_refused(tiny_model: nn.Module) -> None:
    with pytest.raises(ConfigError, match="nothing is left"):
        parameter_groups(Whole(tiny_model), OptimizerSettings(part_lrs={"*": 0.0}))


def test_set_rates_multiplies_each_peak(tiny_model: nn.Module) -> None:
    optimizer = build_optimizer(Whole(tiny_model), OptimizerSettings(lr=1e-3, part_lrs={"encoder.*": 1e-5}))
    assert isinstance(optimizer, torch.optim.AdamW)
    set_rates(optimizer, 0.5)
    assert {group["lr"] for group in optimizer.param_groups} == {5e-4, 5e-6}


def test_muon_takes_the_matrices_of_blocks_and_leaves_the_rest(tiny_model: nn.Module) -> None:
    module = Whole(tiny_model)
    optimizer = build_optimizer(module, OptimizerSettings(lr=1e-3, muon=True))
    names = {id(value): name for name, value in module.named_parameters()}
    by_muon = {names[id(value)] for group in optimizer.param_groups if group["muon"] for value in group["params"]}
    assert "model.encoder.inter.0.attention.query_key_value.weight" in by_muon
    assert "model.captioner.decoder.0.cross.query.weight" in by_muon
    assert not any("norm" in name or "bias" in name or "words.words" in name or "head" in name for name in by_muon)
    rest = [value for group in optimizer.param_groups if not group["muon"] for value in group["params"]]
    assert len(by_muon) + len(rest) == len(list(module.parameters()))


MUON_STEPS = """
import torch
from torch import nn
from spotchange.config.training import OptimizerSettings
from spotchange.training.optimizers import build_optimizer
from spotchange.models.layers import PreNormBlock


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList([PreNormBlock(width=16, heads=2, activation="gelu")])


def stepped(module, optimizer, times):
    for _ in range(times):
        inputs = torch.randn(32, 8, 16, generator=torch.Generator().manual_seed(1))
        module.blocks[0](inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


settings = OptimizerSettings(lr=1e-2, muon=True)
straight, broken = Holder(), Holder()
whole, first = build_optimizer(straight, settings), build_optimizer(broken, settings)
before = straight.blocks[0].attention.output.weight.detach().clone()
stepped(straight, whole, 4)
stepped(broken, first, 2)
second = build_optimizer(broken, settings)
second.load_state_dict(first.state_dict())
stepped(broken, second, 2)
moved = straight.blocks[0].attention.output.weight - before
assert 0.004 < moved.square().mean().sqrt() < 0.016, moved  # four updates as large as AdamW's, of about 0.2e-2
assert all(torch.equal(one, other) for one, other in zip(straight.parameters(), broken.parameters()))
print("same")
"""


def test_muon_goes_on_exactly_from_its_state() -> None:
    # Muon multiplies in bfloat16, which some CPUs announce and cannot do.
    limits = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    done = subprocess.run([sys.executable, "-c", MUON_STEPS], capture_output=True, text=True, env=limits, check=False)
    assert done.stdout.strip() == "same", done.stderr


@pytest.mark.parametrize("name", ["adapt", "caption", "spot-the-diff-caption"])
def test_the_papers_recipes_freeze_and_halve_what_the_program_does(name: str) -> None:
    recipe = Recipe.from_yaml(RECIPES / "clip4idc" / f"{name}.yaml")
    assert recipe.model is not None
    with torch.device("meta"):
        model = Whole(build_model(recipe.model))
    groups = parameter_groups(model, recipe.optimizer)
    frozen = sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad)
    learning_words = 49408 * 512 if name.startswith("spot") else 0
    assert frozen == 27_736_320 - learning_words
    half = sum(parameter.numel() for group in groups if group["half"] for parameter in group["params"])
    text = 37_800_000 + 512 * 512 if recipe.model.text.encoder else 0
    assert half + 768 * 3 * 32 * 32 == pytest.approx(85_040_000 + 768 * 512 + 2_359_296 + text, rel=2e-3)
    if recipe.model.text.encoder:
        assert half + 768 * 3 * 32 * 32 == pytest.approx(125.8e6, rel=1e-3)


def test_published_decay_spares_biases_and_the_captioner_s_norms_only(tiny_model: nn.Module) -> None:
    rates = found(Whole(tiny_model), OptimizerSettings(weight_decay=0.1, decayed="published"))
    for name, (_, decay) in rates.items():
        spared = name.endswith("bias") or (name.startswith("model.captioner.") and "norm" in name)
        assert decay == (0.0 if spared else 0.1), name


def test_old_recipes_name_the_algorithm_otherwise() -> None:
    assert OptimizerSettings.model_validate({"decoupled": False}).algorithm == "adam"
    assert OptimizerSettings.model_validate({"decoupled": True}).algorithm == "adamw"


def test_half_precision_belongs_to_bert_adam() -> None:
    with pytest.raises(ConfigError, match=r"needs optimizer\.algorithm bert-adam"):
        Recipe.from_mapping(
            {"name": "x", "model": "spotchange-tiny", "data": "stream", "optimizer": {"half_parts": ["encoder.*"]},
             "stage": {"objective": {"kind": "caption"}, "steps": 1}},
            source="test",
        )  # fmt: skip
