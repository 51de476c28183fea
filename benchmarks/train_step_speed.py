"""How fast the caption stage trains, the model alone: pairs per second of whole steps on data already there.

    python benchmarks/train_step_speed.py --batch 256 512

ViT-B/32 size, bf16 autocast, torch.compile, AdamW (fused), gradient norm clipped; every part trains.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
from torch.nn import functional as F

from spotchange.config.model import ModelSettings
from spotchange.models.build import build_model
from spotchange.models.clip4idc import Clip4idc


def loss_of(model: Clip4idc, before: torch.Tensor, after: torch.Tensor, ids: torch.Tensor, pad: int) -> torch.Tensor:
    """Cross-entropy of every next word."""
    logits = model.caption_logits(model.encode(before, after), ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), ignore_index=pad)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--preset", default="clip4idc")
    parser.add_argument("--batch", type=int, nargs="+", default=[512])
    parser.add_argument("--words", type=int, default=32, help="tokens a caption, begin and end included")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--no-compile", action="store_true")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    settings = ModelSettings.model_validate({"preset": arguments.preset, "text": {"encoder": False}})
    model = build_model(settings).to(device).train()
    assert isinstance(model, Clip4idc)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=device.type == "cuda")
    compute = loss_of if arguments.no_compile else torch.compile(loss_of, dynamic=False)
    for pairs in arguments.batch:
        rate = pairs_per_second(model, optimizer, compute, settings, pairs, arguments, device)
        print(
            json.dumps(
                {
                    "figure": "caption stage, model alone",
                    "value": round(rate, 1),
                    "unit": "pairs/s",
                    "batch": pairs,
                    "words": arguments.words,
                    "precision": "bf16" if device.type == "cuda" else "fp32",
                    "machine": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
                }
            ),
            flush=True,
        )


def pairs_per_second(model, optimizer, compute, settings, pairs, arguments, device) -> float:
    """Median over the timed steps."""
    before, after = torch.randn(2, pairs, 3, *settings.vision.image_size, device=device)
    vocabulary = settings.vocabulary
    ids = torch.randint(3, vocabulary.size - 2, (pairs, arguments.words), device=device)
    ids[:, 0], ids[:, -1] = vocabulary.begin, vocabulary.end
    times = []
    for _ in range(5 + arguments.steps):
        start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = compute(model, before, after, ids, vocabulary.pad)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return pairs / statistics.median(times[5:])


if __name__ == "__main__":
    main()
