"""Feature folders: what is written is read, and what does not fit is refused with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spotchange.data.caches.feature_writing import FeatureWriter, write_features
from spotchange.data.caches.features import FeatureFacts, FeatureRow, read_facts, read_feature_rows
from spotchange.errors import DataError, InputError
from spotchange.storage import Outgoing

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


def parts_of(label: str, number: int) -> tuple[np.ndarray, list[FeatureRow], str]:
    row = FeatureRow(before=number, after=number, captions=(f"row {number}",))
    return np.full((1, 6, 4), number, np.float32), [row], label


def begun(folder: Path, key: str = "same", labels: str = "abc") -> FeatureWriter:
    return FeatureWriter(Outgoing(folder, folder, ()), FACTS, key=key, labels=tuple(labels))


def test_a_stopped_run_goes_on_with_the_first_part_that_is_not_whole(tmp_path: Path) -> None:
    whole = begun(tmp_path / "whole")
    for number, label in enumerate("abc"):
        whole.add(*parts_of(label, number))
    whole.finish()
    part = tmp_path / "part"
    stopped = begun(part)
    for number, label in enumerate("ab"):
        stopped.add(*parts_of(label, number))
    with (part / "features.bin").open("ab") as file:
        file.write(b"cut off")  # the machine died in the middle of the third
    again = begun(part)
    assert (again.parts, again.images) == (2, 2)
    again.add(*parts_of("c", 2))
    again.finish()
    assert {path.name: path.read_bytes() for path in part.iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()
    }
    assert not (part / "parts.jsonl").exists()


def test_damaged_and_foreign_parts_are_made_again(tmp_path: Path) -> None:
    writer = begun(tmp_path)
    for number, label in enumerate("abc"):
        writer.add(*parts_of(label, number))
    features = tmp_path / "features.bin"
    content = bytearray(features.read_bytes())
    content[len(content) // 2] ^= 1  # in the second part
    features.write_bytes(content)
    assert begun(tmp_path).parts == 1
    assert features.stat().st_size == len(content) // 3
    assert begun(tmp_path, labels="xbc").parts == 0  # other scenes
    begun(tmp_path).add(*parts_of("a", 0))
    assert begun(tmp_path, key="other").parts == 0  # other settings
    assert features.stat().st_size == 0
