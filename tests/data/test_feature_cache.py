"""Feature folders: what is written is read, and what does not fit is refused with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spotchange.data.caches.feature_writing import write_features
from spotchange.data.caches.features import FeatureFacts, FeatureRow, read_facts, read_feature_rows
from spotchange.errors import DataError, InputError

FACTS = FeatureFacts(task="pairs", backbone="abc", image_size=(64, 96), grid=(2, 3), channels=4, paired=True)
ROWS = [FeatureRow(before=0, after=1, captions=("it moved",), change_type=5, scene=7)]


def write(folder: Path) -> FeatureFacts:
    return write_features(folder, FACTS, [(np.ones((2, 6, 4), np.float32), ROWS)])


def test_round_trip(tmp_path: Path) -> None:
    facts = write(tmp_path)
    assert (facts.pictures, facts.rows) == (2, 1)
    assert read_facts(tmp_path, backbone="abc") == facts
    assert list(read_feature_rows(tmp_path)) == ROWS
    assert (tmp_path / "features.bin").stat().st_size == 2 * 6 * 4 * 2


def test_another_network_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(DataError, match="made by another network"):
        read_facts(tmp_path, backbone="xyz")


def test_missing_unfinished_and_cut_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no features"):
        read_facts(tmp_path / "nothing")
    write(tmp_path)
    (tmp_path / "features.bin").write_bytes(b"0" * 10)
    with pytest.raises(DataError, match="not as long as"):
        read_facts(tmp_path)
    (tmp_path / "features.json").unlink()
    with pytest.raises(DataError, match="is unfinished"):
        read_facts(tmp_path)


def test_nothing_is_overwritten_and_nothing_is_no_set(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(InputError, match="already holds features"):
        write(tmp_path)
    with pytest.raises(DataError, match="has no rows"):
        write_features(tmp_path / "empty", FACTS, [])
