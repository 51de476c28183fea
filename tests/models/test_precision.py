"""bf16 against fp32, within stated bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

PROGRAM = """
import json, torch
from spotchange.config.model import ModelSettings
from spotchange.models.build import build_model
from spotchange.models.interface import DecodingOptions
torch.set_num_threads(1)
torch.manual_seed(0)
settings = ModelSettings.model_validate({"preset": "spotchange-tiny", "vision": {"layers": 6}})
exact = build_model(settings).eval()
rough = build_model(settings).eval()
rough.load_state_dict(exact.state_dict())
rough = rough.to(torch.bfloat16)
before, after = torch.randn(2, 8, 3, 48, 72)
ids = torch.randint(3, 80, (8, 10))
with torch.inference_mode():
    one = exact.encode(before, after)
    two = rough.encode(before.bfloat16(), after.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        three = exact.encode(before, after)
        cast = exact.caption_logits(three, ids)
    said = exact.caption_logits(one, ids).log_softmax(-1)
    halved = rough.caption_logits(two, ids).float().log_softmax(-1)
    generated = rough.generate(two, DecodingOptions(max_words=6))
    def cosine(a, b):
        return torch.nn.functional.cosine_similarity(a.float(), b.float(), dim=-1).min().item()
    print(json.dumps({
        "tokens": cosine(one.tokens, two.tokens),
        "autocast": cosine(one.tokens, three.tokens),
        "log_probabilities": (said - halved).abs().max().item(),
        "autocast_log_probabilities": (said - cast.float().log_softmax(-1)).abs().max().item(),
        "heat": (exact.heatmap(one) - rough.heatmap(two)).abs().max().item(),
        "words": list(generated.ids.shape),
    }))
"""


@pytest.fixture(scope="module")
def differences() -> dict:
    # Some processors announce bf16 matrix units that their hypervisor does not provide; oneDNN must not use them.
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_bf16_stays_near_fp32(differences: dict) -> None:
    """bf16 has 8 bits of mantissa: tokens keep their direction to 1e-3, log-probabilities move by less than 0.1."""
    assert differences["tokens"] > 0.999
    assert differences["autocast"] > 0.999
    assert differences["log_probabilities"] < 0.1
    assert differences["autocast_log_probabilities"] < 0.1
    assert differences["heat"] < 0.02
    assert differences["words"] == [8, 1, 6]
    assert differences["tokens"] < 1 - 1e-7  # it was bf16 indeed


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_graphed_decoding_equals_cpu() -> None:
    """On a GPU words come from replayed CUDA graphs: the same words, also after the weights moved."""
    from spotchange.config.model import ModelSettings
    from spotchange.models.build import build_model
    from spotchange.models.interface import DecodingOptions

    torch.manual_seed(0)
    model = build_model(ModelSettings.model_validate({"preset": "spotchange-tiny"})).eval()
    before, after = torch.randn(2, 6, 3, 48, 72)
    for options in (DecodingOptions(max_words=9), DecodingOptions(method="beam", beams=3, candidates=2, max_words=9)):
        for _ in range(3):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(0.05 * torch.randn_like(parameter))
            slow = model.cpu().generate(model.encode(before, after), options)
            model.cuda()
            fast = [model.generate(model.encode(before.cuda(), after.cuda()), options) for _ in range(2)]
            for each in fast:
                assert torch.equal(each.ids.cpu(), slow.ids)
                torch.testing.assert_close(each.log_probabilities.cpu(), slow.log_probabilities, atol=1e-3, rtol=1e-3)
