"""The leaderboard: order, seeds, rates, floor, paired tests, published rows, and what it refuses."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from spotchange.cli.main import app
from spotchange.errors import DataError, InputError
from spotchange.evaluation.leaderboard import read_leaderboard
from spotchange.metrics.significance import order_test, rank_correlation

TRUTH = [
    ("the red cube is gone", "drop"),
    ("there is no change", "none"),
    ("the big ball moved", "move"),
    ("there is no change", "none"),
    ("a blue cylinder appeared", "add"),
    ("there is no change", "none"),
]


def make_run(
    folder: Path,
    system: str,
    *,
    right: int,
    seed: int = 1,
    rate: float = 1e-3,
    cider: float = 1.0,
    shift: int = 0,
    steps: int = 10,
) -> None:
    """A run whose first `right` captions are the references, all others wrong."""
    (folder / "best").mkdir(parents=True)
    rows = []
    for number, (text, kind) in enumerate(TRUTH):
        correct = number < right
        rows.append(
            {
                "id": str(number),
                "caption": text if correct else "the green thing",
                "references": [text, TRUTH[(number + shift) % len(TRUTH)][0]],
                "change_type": kind,
                "fact": correct,
            }
        )
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = {
        "name": system,
        "seed": seed,
        "model": {"baseline": {"system": system}},
        "optimizer": {"lr": rate},
        "stage": {"pairs_per_step": 256},
    }
    (folder / "best" / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    log = [
        {"kind": "start", "parameters": 1000},
        {"kind": "step", "step": 1, "pairs_per_second": 50.0},
        {"kind": "validation", "step": steps, "CIDEr-D": cider},
        {"kind": "end", "step": steps, "minutes": 0.5},
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_run(tmp_path / "board/cells/duda/seed-1/train", "duda", right=3)
    make_run(tmp_path / "board/cells/duda/seed-2/train", "duda", right=5, seed=2)
    make_run(tmp_path / "board/cells/scorer/seed-1/train", "scorer", right=6)
    make_run(tmp_path / "board/cells/mccformers-s/seed-1/train", "mccformers-s", right=5)
    make_run(tmp_path / "board/cells/vam/seed-1/train", "vam", right=2)
    return tmp_path / "board"


def test_the_best_stands_first_and_seeds_are_averaged(folder: Path) -> None:
    board = read_leaderboard([folder], meteor=False)
    assert board.entries[0].title == "SCORER"
    duda = next(entry for entry in board.entries if entry.title == "DUDA")
    assert duda.mean("facts") == pytest.approx((3 / 6 + 5 / 6) / 2)
    assert duda.spread("facts") == pytest.approx(abs(3 / 6 - 5 / 6) / 2**0.5)
    assert duda.by_kind("none", "facts") == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert duda.run.pairs == 2560
    best = board.entries[0]
    assert best.against_best is None
    assert duda.against_best is not None
    assert duda.against_best["facts"].difference == pytest.approx(3 / 6 - 1)  # the best has the first seed only
    assert duda.published is not None
    assert duda.published.scores["CIDEr-D"] == 112.0
    untrained = [row.system for row in board.only_published]
    assert any(name.startswith("CC-Full") for name in untrained)  # nothing is known of it but its numbers
    assert not any(name.startswith("DUDA (") for name in untrained)
    assert board.constant.scores["facts"] == pytest.approx(0.5)  # it denies every change


def test_intervals_and_tests_are_of_all_seeds(folder: Path) -> None:
    """A first seed that happens to be as good as the best one must not say that the systems are equal."""
    make_run(folder / "cells/duda/seed-3/train", "duda", right=0, seed=3)
    for seed in (2, 3):
        make_run(folder / f"cells/scorer/seed-{seed}/train", "scorer", right=6, seed=seed)
    board = read_leaderboard([folder], meteor=False)
    duda = next(entry for entry in board.entries if entry.title == "DUDA")
    assert duda.against_best is not None
    for name in ("facts", "CIDEr-D", "ROUGE-L"):
        test = duda.against_best[name]
        assert (test.first, test.second) == pytest.approx((board.entries[0].mean(name), duda.mean(name)))
    low, high = duda.intervals["facts"]
    assert low < (3 + 5 + 0) / 18 < high
    assert duda.against_best["BLEU-4"].first == pytest.approx(board.entries[0].runs[0].scores["BLEU-4"])


def test_only_systems_of_known_code_are_ranked(folder: Path) -> None:
    board = read_leaderboard([folder], meteor=False)
    assert set(board.ranked) == {"DUDA", "SCORER", "MCCFormers-S"}
    assert board.rank_correlation == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1, 2], [1, 2]) is None
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None
    assert board.rank_p_value == pytest.approx(2 / 6)  # of six orders one agrees as much, one disagrees as much


def test_an_order_is_tested_against_chance() -> None:
    assert order_test([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(2 / 24)
    assert order_test([1, 2, 3, 4], [20, 10, 40, 30]) == pytest.approx(
        sum(abs(rank_correlation([1, 2, 3, 4], order)) >= 0.6 - 1e-9 for order in permutations([1, 2, 3, 4])) / 24
    )
    many = list(range(12))
    assert order_test(many, many) == pytest.approx(1e-4)  # sampled: itself, and nothing else
    assert order_test([1, 2], [1, 2]) is None


def test_captions_without_references_are_refused(folder: Path) -> None:
    said = next(folder.rglob("captions.jsonl"))
    rows = [json.loads(line) | {"references": []} for line in said.read_text().splitlines()]
    said.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match="without references") as caught:
        read_leaderboard([folder], meteor=False)
    assert "--references" in str(caught.value.hint)


def test_who_is_below_the_constant_caption_is_told(tmp_path: Path) -> None:
    make_run(tmp_path / "board/scorer/seed-1", "scorer", right=6)
    make_run(tmp_path / "board/vam/seed-1", "vam", right=1)
    make_run(tmp_path / "board/vam/seed-2", "vam", right=0, seed=2)
    (note,) = (each for each in read_leaderboard([tmp_path], meteor=False).notes if "constant caption" in each)
    assert note.endswith("different sentences of each seed: after VAM (2/1)")


def test_the_rate_that_validated_better_on_the_first_seed_counts(folder: Path, tmp_path: Path) -> None:
    make_run(tmp_path / "rates/cells/mccformers-s/seed-1/train", "mccformers-s", right=1, rate=4e-4, cider=1.5)
    make_run(tmp_path / "rates/cells/duda/seed-3/train", "duda", right=6, seed=3, rate=4e-4, cider=1.5)
    board = read_leaderboard([folder, tmp_path / "rates"], meteor=False)
    other = next(entry for entry in board.entries if entry.title == "MCCFormers-S")
    assert other.run.rate == 4e-4
    assert other.mean("facts") == pytest.approx(1 / 6)
    duda = next(entry for entry in board.entries if entry.title == "DUDA")
    assert duda.run.rate == 1e-3  # the other rate was not tried on the seed that chooses


def test_only_runs_of_one_length_are_compared(folder: Path) -> None:
    make_run(folder / "cells/duda/seed-3/train", "duda", right=0, seed=3, steps=4)
    make_run(folder / "cells/dirl/seed-1/train", "dirl", right=6, steps=4)
    make_run(folder / "cells/scorer/seed-2/train", "scorer", right=5, seed=2)
    board = read_leaderboard([folder], meteor=False)
    rows = {entry.title: entry for entry in board.entries}
    assert len(rows["DUDA"].runs) == 2  # the short seed would have pulled the mean down
    assert board.entries[-1].title == "DIRL"
    assert rows["DIRL"].against_best is None
    assert "DIRL" not in board.ranked
    assert board.entries[0].title == "SCORER"
    assert "seeds a system: 1 or 2" in board.notes[0]
    assert any("trained for less" in note and "DIRL (1,024 pairs)" in note for note in board.notes)
    assert "left out, too short: DUDA, seed 3 (1,024 pairs)" in board.notes
    one = read_leaderboard([folder], meteor=False, seeds=1)
    assert {len(entry.runs) for entry in one.entries} == {1}
    assert next(entry for entry in one.entries if entry.title == "DUDA").mean("facts") == pytest.approx(3 / 6)


def test_pairs_of_which_nobody_knows_the_truth(folder: Path, tmp_path: Path) -> None:
    for file in folder.rglob("captions.jsonl"):
        rows = [json.loads(line) | {"fact": None, "change_type": None} for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = tmp_path / "page.html"
    folder = folder.rename(tmp_path / "leaderboard-levir-cc")
    shown = CliRunner().invoke(app, ["leaderboard", str(folder), "--no-meteor", "--html", str(page)])
    assert shown.exit_code == 0
    assert "facts" not in page.read_text()
    assert "<h1>Leaderboard: levir-cc</h1>" in page.read_text()


def test_other_pairs_and_empty_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no captions\.jsonl"):
        read_leaderboard([tmp_path / "empty"])
    make_run(tmp_path / "other/run", "dirl", right=1, shift=1)
    with pytest.raises(DataError, match="spoke of other pairs"):
        read_leaderboard([folder, tmp_path / "other"], meteor=False)


def test_the_command_prints_tables_json_and_a_page(folder: Path, tmp_path: Path) -> None:
    (folder / "speeds.json").write_text(json.dumps({"duda": {"training": 12345.0, "captioning": 23456.0}}))
    page = tmp_path / "page.html"
    shown = CliRunner().invoke(app, ["leaderboard", str(folder), "--no-meteor", "--html", str(page)])
    assert shown.exit_code == 0
    assert "after VAM" in shown.stdout
    assert "12,345" in shown.stdout
    assert "over the 3 systems" in shown.stdout
    assert "p of all" in shown.stdout
    written = page.read_text()
    assert "<svg" in written
    assert "after NAME: rebuilt where some part had to be guessed" in written  # a page alone must say what it shows
    assert "<td>0.001</td>" in written  # the learning rate
    assert "<h1>Leaderboard: board</h1>" in written
    told = CliRunner().invoke(app, ["leaderboard", str(folder), "--no-meteor", "--json"])
    values = json.loads(told.stdout)
    assert values["systems"][0]["title"] == "SCORER"
    assert values["systems"][0]["against_best"] is None
