"""Rows that are scored come from folders or from tar shards, and the numbers are the same."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from spotchange.data import read_rows
from spotchange.data.protocols import get_protocol
from spotchange.data.shards import write_shards
from spotchange.errors import DataError
from spotchange.evaluation.rows import ScoredSplit
from spotchange.evaluation.run import Evaluation, EvaluationOptions, evaluate
from spotchange.reports.evaluation_report import report_html

OPTIONS = EvaluationOptions(meteor=False)


@pytest.fixture
def shards(data_set: Path, tmp_path: Path) -> Path:
    """The data set in shards of six pairs."""
    write_shards(data_set, tmp_path / "shards", pairs_per_shard=6)
    return tmp_path / "shards"


def numbers_of(evaluation: Evaluation) -> dict[str, Any]:
    """Everything but what the data set is called."""
    values = evaluation.as_dict()
    del values["data_set"]
    for system in [*values["systems"], values["constant"]]:
        del system["signature"]
    return values


def test_shards_give_the_numbers_of_the_folder_they_were_made_of(data_set: Path, shards: Path) -> None:
    folder, packed = (evaluate("pixels", place, OPTIONS) for place in (data_set, shards))
    assert len(packed.rows) == 20
    assert "pointing" in packed.systems[0].total.beyond  # boxes came along
    assert packed.constant_caption.source == "training captions"
    assert numbers_of(packed) == numbers_of(folder)
    page = report_html(packed)
    assert page.count("data:image/jpeg;base64,") == report_html(folder).count("data:image/jpeg;base64,") > 0


def test_shards_may_be_named_one_by_one_or_by_a_pattern(shards: Path) -> None:
    some = evaluate("pixels", shards / "val-000001.tar", OPTIONS)
    every = evaluate("pixels", shards / "val-*.tar", OPTIONS)
    assert (len(some.rows), len(every.rows)) == (6, 20)
    assert [row.id for row in some.rows] == [row.id for row in every.rows][6:12]
    assert every.split == "all rows"
    assert every.constant_caption.source == "references, for want of a training split"
    assert len(evaluate("pixels", shards / "val-*.tar", EvaluationOptions(meteor=False, limit=7)).rows) == 7


def test_a_row_of_a_shard_knows_its_images_also_elsewhere(data_set: Path, shards: Path) -> None:
    """On a cluster rows travel to workers."""
    rows = ScoredSplit.of(shards, "val", None).rows(None)
    for row, wanted in zip(pickle.loads(pickle.dumps(rows)), read_rows(data_set, "val"), strict=True):
        assert (row.id, row.captions, row.facts) == (wanted.id, wanted.captions, wanted.facts)
        assert row.before_path.read_bytes() == wanted.before_path.read_bytes()
        assert row.after_path.read_bytes() == wanted.after_path.read_bytes()
        assert row.mask_path is None


def test_a_data_set_with_shards_beside_its_splits_is_a_folder(data_set: Path, tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "val").symlink_to(data_set / "val")
    write_shards(tmp_path / "both", tmp_path / "both")
    assert not ScoredSplit.of(tmp_path / "both", "val", None).packed
    with pytest.raises(DataError, match="has no split 'test'"):
        evaluate("pixels", tmp_path / "both", EvaluationOptions(split="test"))


def test_what_shards_cannot_give_is_refused(data_set: Path, shards: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no shards of a split 'test'") as caught:
        evaluate("pixels", shards, EvaluationOptions(split="test"))
    assert caught.value.hint == "splits there: train, val"
    with pytest.raises(DataError, match="counts pairs without a sentence, and tar shards hold none"):
        ScoredSplit.of(shards, "val", get_protocol("spot-the-diff-single")).wordless()
    with pytest.raises(DataError, match=r"cannot read .*: No such file"):
        evaluate("pixels", tmp_path / "gone.tar", OPTIONS)
    with pytest.raises(DataError, match="no shard matches"):
        evaluate("pixels", tmp_path / "gone-*.tar", OPTIONS)
    os.mkfifo(tmp_path / "pipe.tar")
    with pytest.raises(DataError, match="is not a file"):
        evaluate("pixels", tmp_path / "pipe.tar", OPTIONS)
    whole = (shards / "val-000001.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="it was cut"):
        evaluate("pixels", tmp_path / "cut.tar", OPTIONS)
    (tmp_path / "twice-000000.tar").write_bytes(whole)
    (tmp_path / "twice-000001.tar").write_bytes(whole)
    with pytest.raises(DataError, match="stands in it more than once"):
        evaluate("pixels", tmp_path / "twice-*.tar", OPTIONS)
