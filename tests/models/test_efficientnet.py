import torch
import torch.nn.functional as F

from spotchange.config.model import ModelSettings
from spotchange.everyday.kinds import KINDS
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.everyday.language.wording import TOKENS
from spotchange.models.build import build_model
from spotchange.models.vision.efficientnet import ConvNorm, EfficientNetLite


def test_a_folded_norm_is_the_norm():
    torch.manual_seed(0)
    part = ConvNorm(4, 8, 3)
    part.norm.running_mean.uniform_(-1, 1)
    part.norm.running_var.uniform_(0.5, 2)
    planes = torch.randn(2, 4, 9, 9)
    expected = part.norm.eval()(F.conv2d(planes, part.conv.weight, padding=1))
    assert torch.allclose(part(planes), expected, atol=1e-5)


def test_uneven_padding_lies_below_and_to_the_right():
    part = ConvNorm(1, 1, 3, stride=2)
    with torch.no_grad():
        part.conv.weight.fill_(1.0)
    sums = part(torch.ones(1, 1, 4, 4))[0, 0]
    assert sums.shape == (2, 2)
    assert torch.allclose(sums / sums[0, 0], torch.tensor([[1, 2 / 3], [2 / 3, 4 / 9]]), atol=1e-3)


def test_frozen_blocks_and_depthwise_kernels_do_not_learn():
    network = EfficientNetLite(frozen=3)
    fine, middle, deep = network(torch.randn(1, 3, 64, 64))
    assert (fine.shape, middle.shape, deep.shape) == ((1, 40, 8, 8), (1, 112, 4, 4), (1, 320, 2, 2))
    (middle.sum() + deep.sum()).backward()
    learnt = {name for name, weight in network.named_parameters() if weight.grad is not None}
    assert not any(
        name.startswith(("stem", "blocks.0.", "blocks.1.", "blocks.2.")) or "depthwise" in name for name in learnt
    )
    assert "blocks.3.expand.conv.weight" in learnt
    assert "blocks.15.project.norm.weight" in learnt


def test_the_preset_fits_the_world_and_the_size_limit():
    settings = ModelSettings.model_validate({"preset": "spotchange-everyday"})
    assert settings.heads.change_types == KINDS
    assert settings.heads.nouns == len(everyday_nouns().names) + 1
    assert settings.vocabulary.size == len(TOKENS)
    with torch.device("meta"):
        model = build_model(settings)
    assert 2 * sum(value.numel() for value in model.state_dict().values()) < 36 * 2**20
