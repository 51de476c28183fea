"""LoRA on other families than LLaVA, whose processors give other tensors beside the tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image
from tiny_families import FAMILIES

from spotchange.config.prompts import load_prompt
from spotchange.config.vlm import ChatModelSettings, LoraSettings
from spotchange.models.vlm.adapter import load_to_train
from spotchange.models.vlm.chat import ChatCoder


@pytest.mark.parametrize("name", ["qwen2_5_vl", "idefics3", "gemma3", "internvl"])
def test_pairs_of_several_sizes_learn_together_as_alone(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    FAMILIES[name](tmp_path / name)
    lora = LoraSettings(rank=2, alpha=4, targets=("q_proj", "v_proj"))
    loaded = load_to_train(ChatModelSettings(base=str(tmp_path / name), lora=lora), start_from=None)
    prompt = load_prompt("sentence")
    coder = ChatCoder(loaded.processor, prompt, ends=[2], dtype=torch.float32)
    sizes = ((40, 30), (56, 56))
    pairs = [(Image.new("RGB", size, "red"), Image.new("RGB", size, "blue")) for size in sizes]
    replies = [prompt.reply(changed=True, caption="the mug is gone"), prompt.reply(changed=False, caption="no")]
    model = loaded.model.eval()  # no dropout: losses can be compared

    def loss(places: list[int]) -> torch.Tensor:
        batch = coder.encode([pairs[i] for i in places], [replies[i] for i in places], [1, 0][: len(places)])
        logits = model(**batch.inputs).logits[:, :-1].transpose(1, 2)
        return torch.nn.functional.cross_entropy(logits, batch.labels[:, 1:], reduction="none").sum()

    before = loss([0, 1]).item()
    assert before == pytest.approx(loss([0]).item() + loss([1]).item(), rel=1e-5)
    optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], 1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        loss([0, 1]).backward()
        optimizer.step()
    assert loss([0, 1]).item() < before - 1
