"""Compilation by regions: blocks of a kind share their code, and nothing else about the model changes."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from spotchange.config.model import ModelSettings
from spotchange.config.objectives import CaptionSettings, PclPretrainSettings
from spotchange.models.build import build_model
from spotchange.training.compilation import compile_regions
from spotchange.training.objectives.caption import CaptionObjective
from spotchange.training.objectives.pcl_pretrain import PclPretrainObjective

# Torch's own compiler looks at gradients of inner tensors, and silences that in a way pytest does not notice.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

HALF = {"mean": (0.5,) * 3, "std": (0.25,) * 3}


@pytest.fixture
def objective(tiny_settings: ModelSettings) -> CaptionObjective:
    torch.compiler.reset()
    torch.manual_seed(0)
    vision = tiny_settings.vision.model_copy(update={"layers": 6, "n_inter": 2})
    model = build_model(tiny_settings.model_copy(update={"vision": vision}))
    return CaptionObjective(model, CaptionSettings.model_validate({"kind": "caption", "dense": {}}), **HALF)


def test_blocks_of_a_kind_are_compiled_once(objective: CaptionObjective, make_batch) -> None:
    names = set(objective.state_dict())
    objective.eval()
    expected = objective(make_batch(8, seed=1))["loss"]
    counter = CompileCounter()
    compile_regions(objective, backend=counter)  # type: ignore[arg-type]
    found = objective(make_batch(8, seed=1))["loss"]
    torch.testing.assert_close(found, expected)
    # Normalisation, patches, intra blocks, inter blocks, one captioner block, the words' losses, the dense truth.
    assert counter.frame_count == 7
    assert set(objective.state_dict()) == names


def test_ranking_beside_captions_adds_one_region_and_later_batches_none(
    tiny_settings: ModelSettings, make_batch
) -> None:
    """As `small/wide` trains: every further shape would cost a compilation in the middle of a run."""
    torch.compiler.reset()
    torch.manual_seed(0)
    text = tiny_settings.text.model_copy(update={"encoder": True})
    model = build_model(tiny_settings.model_copy(update={"text": text}))
    settings = CaptionSettings.model_validate({"kind": "caption", "dense": {}, "contrast": 0.5})
    ranking = CaptionObjective(model, settings, **HALF).train()
    counter = CompileCounter()
    compile_regions(ranking, backend=counter)  # type: ignore[arg-type]
    ranking(make_batch(8, seed=1))["loss"].backward()
    compiled = counter.frame_count
    assert compiled == 8  # the seven above and the text encoder's blocks
    ranking(make_batch(8, seed=2))["loss"].backward()
    assert counter.frame_count == compiled


def test_gradients_are_the_same(objective: CaptionObjective, make_batch) -> None:
    objective.eval()
    objective(make_batch(8, seed=1))["loss"].backward()
    plain = {name: value.grad.clone() for name, value in objective.named_parameters() if value.grad is not None}
    objective.zero_grad(set_to_none=True)
    compile_regions(objective, backend="aot_eager")
    objective(make_batch(8, seed=1))["loss"].backward()
    for name, value in objective.named_parameters():
        if name in plain:
            torch.testing.assert_close(value.grad, plain[name], rtol=1e-4, atol=1e-6)


def test_a_frozen_resnet_is_compiled_by_stages() -> None:
    torch.compiler.reset()
    torch.manual_seed(0)
    settings = ModelSettings.from_mapping(
        {
            "preset": "idc-pcl-resnet50",
            "vision": {"image_size": [64, 96], "resnet_depths": [1, 2, 1, 1], "resnet_channels": [8, 8, 8, 16]},
            "text": {"width": 16},
            "captioner": {"width": 16, "heads": 2, "decoder_layers": 1},
            "heads": {"pretraining": True},
        },
        source="test",
    )
    objective = PclPretrainObjective(build_model(settings), PclPretrainSettings(kind="pcl-pretrain"), **HALF).train()
    images = torch.randint(256, (4, 3, 64, 96), dtype=torch.uint8)
    expected = objective.see(images, images, shares_before=True)
    counter = CompileCounter()
    compile_regions(objective, backend=counter)  # type: ignore[arg-type]
    torch.testing.assert_close(objective.see(images, images, shares_before=True), expected)
    assert counter.frame_count == 6  # normalisation, the first convolution, four stages


def test_other_shapes_run_uncompiled_under_the_eager_stance(objective: CaptionObjective, make_batch) -> None:
    counter = CompileCounter()
    compile_regions(objective, backend=counter)  # type: ignore[arg-type]
    with torch.compiler.set_stance("force_eager"):
        objective(make_batch(4, seed=2))
    assert counter.frame_count == 0
