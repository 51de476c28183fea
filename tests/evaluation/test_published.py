from __future__ import annotations

import pytest

from spotchange.errors import InputError
from spotchange.evaluation.published import published_names, published_rows


def test_rows_of_the_papers() -> None:
    rows = {row.system: row for row in published_rows("CLEVR_Change")}
    final = rows["CLIP4IDC, final version (2022)"]
    assert final.scores == {"BLEU-4": 56.9, "METEOR": 38.4, "CIDEr-D": 150.7, "ROUGE-L": 76.4}
    assert final.cider_by_type["move"] == 91.0
    assert final.retrieval["pair to text"]["R@5"] == 83.0
    assert "ROUGE-L" not in rows["DUDA (2019)"].scores
    assert published_rows("spot the diff")[0].scores["METEOR"] == 12.0
    assert len(published_names()) == 5


def test_every_row_is_plausible() -> None:
    for name in published_names():
        rows = published_rows(name)
        assert len({row.system for row in rows}) == len(rows)
        for row in rows:
            assert "CIDEr-D" in row.scores
            assert all(0 < value < 170 for value in (*row.scores.values(), *row.cider_by_type.values()))
            assert row.source


def test_an_unknown_data_set_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="no published rows") as caught:
        published_rows("coco")
    assert caught.value.hint is not None
    assert "birds-to-words" in caught.value.hint
