"""The likeliest word, on the CPU and by the CUDA kernel."""

from __future__ import annotations

import pytest
import torch

from spotchange.models.decoding.torch_arrays import likeliest


@pytest.mark.parametrize("forbid", [False, True])
def test_likeliest_is_the_best_allowed_word_with_the_models_probability(forbid: bool) -> None:
    torch.manual_seed(0)
    scores = 3 * torch.randn(7, 50)
    forbidden = int(scores[3].argmax()) if forbid else None
    kept = scores.clone()
    ids, chances = likeliest(scores, forbidden)
    assert torch.equal(scores, kept)  # a graph's own memory
    probabilities = scores.double().softmax(dim=-1)
    for row, (word, chance) in enumerate(zip(ids.tolist(), chances.tolist(), strict=True)):
        ranked = [each for each in scores[row].argsort(descending=True).tolist() if each != forbidden]
        assert word == ranked[0]
        assert chance == pytest.approx(float(probabilities[row, word].log()), abs=1e-5)


def test_coarse_scores_keep_fine_probabilities() -> None:
    scores = torch.zeros(1, 1000, dtype=torch.bfloat16)
    chances = likeliest(scores)[1]
    assert chances.dtype == torch.float32
    assert float(chances[0]) == pytest.approx(float(-torch.tensor(1000.0).log()), abs=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("words", [2, 80, 2048, 49408])
def test_kernel_equals_torch(kind: torch.dtype, words: int) -> None:
    from spotchange.models.decoding.argmax_kernel import likeliest_in_one_pass

    torch.manual_seed(0)
    scores = (3 * torch.randn(33, words, device="cuda")).to(kind)
    for forbidden in (None, 0, int(scores[5].argmax())):
        ids, chances = likeliest_in_one_pass(scores, forbidden)
        expected = likeliest(scores, forbidden)  # too few scores for the kernel
        assert torch.equal(ids, expected[0])  # of equal scores, which bf16 has many of, the first
        torch.testing.assert_close(chances, expected[1], atol=1e-5, rtol=1e-5)
