"""A batch in parts is answered as a whole one is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from PIL import Image

from spotchange.answering import CaptionOptions, ImagePair
from spotchange.serving.engine.workers import Workers, split


@pytest.mark.parametrize(("count", "parts", "sizes"), [(1, 2, [1]), (2, 2, [1, 1]), (5, 2, [2, 3]), (16, 3, [5, 5, 6])])
def test_parts(count: int, parts: int, sizes: list[int]) -> None:
    made = split(list(range(count)), parts)  # type: ignore[arg-type]
    assert [len(part) for part in made] == sizes
    assert [item for part in made for item in part] == list(range(count))


def test_answers_keep_their_order_and_their_pair(captioner: Any, draw: Any) -> None:
    import io

    images = [tuple(Image.open(io.BytesIO(draw(n + k))).convert("RGB") for k in (0, 1)) for n in range(7)]
    pairs = [ImagePair.of(*each) for each in images]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    workers = Workers(captioner.answerer)
    assert workers.workers == 2
    try:
        answers = workers.answer(pairs, CaptionOptions())
        alone = workers.answer(pairs[:1], CaptionOptions())
    finally:
        workers.close()
        torch.set_num_threads(before)
    expected = [captioner.answer(*pair).result for pair in images]
    assert [answer.result.caption for answer in answers] == [result.caption for result in expected]
    assert alone[0].result.caption == expected[0].caption


def test_an_error_in_a_part_is_the_batchs_error() -> None:
    class Broken:
        workers = 2

        def set_threads(self, count: int) -> None:
            pass

        def answer(self, pairs: Any, options: Any) -> Any:
            raise ValueError("broken")

    workers = Workers(Broken())  # type: ignore[arg-type]
    image = Image.new("RGB", (4, 4))
    with pytest.raises(ValueError, match="broken"):
        workers.answer([ImagePair.of(image, image)] * 3, CaptionOptions())
    workers.close()
