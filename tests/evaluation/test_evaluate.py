from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spotchange.data import Row, read_rows
from spotchange.errors import ConfigError, DataError, InputError
from spotchange.evaluation.predictions import SystemOutputs, outputs_from_file, outputs_from_model
from spotchange.evaluation.run import EvaluationOptions, evaluate
from spotchange.metrics import score
from spotchange.reports.evaluation_report import ranked_rows, report_html, write_report
from spotchange.reports.tables import tables_of

OPTIONS = EvaluationOptions(meteor=False)


def write_captions(path: Path, data_set: Path, **wrong: str) -> Path:
    """First references as captions, those named by id replaced."""
    captions = {row.id: wrong.get(f"id{row.id}", row.captions[0]) for row in read_rows(data_set, "val")}
    path.write_text(json.dumps(captions))
    return path


def test_a_perfect_system_from_a_file(data_set: Path, tmp_path: Path) -> None:
    evaluation = evaluate(str(write_captions(tmp_path / "perfect.json", data_set)), data_set, OPTIONS)
    (system,) = evaluation.systems
    assert system.name == "perfect"
    assert len(evaluation.rows) == system.total.pairs == 20
    for name in (
        "change accuracy",
        "change precision",
        "change recall",
        "type accuracy",
        "fact accuracy",
        "all attributes",
    ):
        assert system.total.beyond[name] == 1, name
    assert system.total.captions["BLEU-4"] == pytest.approx(1, abs=1e-6)
    assert "pointing" not in system.total.beyond  # a file has no heat
    assert system.confusion["none"] == {"none": 10}


def test_every_kind_of_mistake_is_counted(data_set: Path, tmp_path: Path) -> None:
    wrong = {
        "id0c": "no change was made",  # a change not seen
        "id1n": "the large red metal cube moved",  # a change that is not there
        "id1c": "the large red metal cube moved",  # the wrong type
        "id5c": "the large red metal cube became green",  # the wrong new value
        "id2c": "the cube has been added",  # true, but not everything is said
    }
    evaluation = evaluate(str(write_captions(tmp_path / "p.json", data_set, **wrong)), data_set, OPTIONS)
    beyond = evaluation.systems[0].total.beyond
    assert beyond["change accuracy"] == pytest.approx(18 / 20)
    assert beyond["change precision"] == pytest.approx(9 / 10)
    assert beyond["change recall"] == pytest.approx(9 / 10)
    assert beyond["type accuracy"] == pytest.approx(17 / 20)
    assert beyond["fact accuracy"] == pytest.approx(16 / 20)
    assert beyond["all attributes"] == pytest.approx(15 / 20)
    assert any("on trust" in note for note in evaluation.notes)


def test_each_type_is_an_evaluation_of_its_own(data_set: Path, tmp_path: Path) -> None:
    path = write_captions(tmp_path / "p.json", data_set, id0c="the red block is blue now", id5c="no change was made")
    evaluation = evaluate(str(path), data_set, OPTIONS)
    system = evaluation.systems[0]
    assert list(system.by_type) == ["changed", "color", "texture", "add", "drop", "move", "none"]
    rows = [row for row in evaluation.rows if row.change_type == "color"]
    captions = json.loads(path.read_text())
    alone = score({row.id: captions[row.id] for row in rows}, {row.id: row.captions for row in rows}, meteor=False)
    assert system.by_type["color"].captions == alone.corpus
    assert system.by_type["none"].pairs == 10
    assert list(evaluation.constant.by_type) == list(system.by_type)
    assert any("'none' is 0 by construction" in note for note in evaluation.notes)
    assert system.by_type["none"].captions["CIDEr-D"] == 0


def test_the_constant_caption_comes_from_training(data_set: Path, tmp_path: Path) -> None:
    evaluation = evaluate(str(write_captions(tmp_path / "p.json", data_set)), data_set, OPTIONS)
    assert evaluation.constant_caption.caption in ("no change was made", "there is no change")
    assert evaluation.constant_caption.source == "training captions"
    assert evaluation.constant.total.beyond["change accuracy"] == 0.5
    assert "change precision" not in evaluation.constant.total.beyond
    on_train = {row.id: row.captions[0] for row in read_rows(data_set, "train")}
    (tmp_path / "t.json").write_text(json.dumps(on_train))
    alone = evaluate(str(tmp_path / "t.json"), data_set, replace(OPTIONS, split="train"))
    assert "train references" in alone.constant_caption.source


def test_a_model_answers_with_heat(data_set: Path, oracle: Any) -> None:
    def answer(name: str, rows: Sequence[Row]) -> SystemOutputs:
        return outputs_from_model(oracle, rows, batch_size=4, beams=2, fingerprint="abcd1234")

    evaluation = evaluate("listed", data_set, OPTIONS, answer=answer)
    system = evaluation.systems[0]
    assert system.total.beyond["pointing, patch"] == 1
    assert system.total.beyond["pointing"] == 1
    assert system.total.beyond["coverage"] > 0.5
    for part in ("split:val", "model:listed@abcd1234", "decoding:beam2"):
        assert part in system.signature
    for name, (_, changed, kind, heat) in list(oracle.answers.items()):
        oracle.answers[name] = ("no change was made", changed, kind, heat[:, ::-1, ::-1])
    astray = evaluate("listed", data_set, OPTIONS, answer=answer).systems[0]
    assert astray.total.beyond["pointing"] < 0.2
    assert astray.total.beyond["type accuracy"] == 1  # the model's own verdict, not its sentence's


def test_two_systems_side_by_side(data_set: Path, tmp_path: Path) -> None:
    wrong = {f"id{number}c": "no change was made" for number in range(10)}
    poor = write_captions(tmp_path / "poor.json", data_set, **wrong)
    good = write_captions(tmp_path / "good.json", data_set)
    evaluation = evaluate(str(poor), data_set, replace(OPTIONS, compare=str(good), published="clevr-change"))
    assert evaluation.comparison is not None
    assert evaluation.comparison["CIDEr-D"].difference > 0
    assert evaluation.comparison["CIDEr-D"].p_value < 0.05
    assert evaluation.comparison["fact accuracy"].difference == pytest.approx(0.5)
    titles = [table.title for table in tables_of(evaluation)]
    assert any(title.startswith("Paired comparison") for title in titles)
    assert any(title.startswith("CIDEr-D by change type") for title in titles)
    for table in tables_of(evaluation):
        assert any(line.look == "constant" for line in table.lines), table.title
        assert all(len(line.cells) == len(table.header) for line in table.lines), table.title
    text = json.dumps(evaluation.as_dict(), allow_nan=False)
    assert json.loads(text)["systems"][0]["items"]["0c"]["caption"] == "no change was made"


def test_verdicts_of_a_result_file_win_over_the_sentence(data_set: Path, tmp_path: Path) -> None:
    lines = [
        {"id": row.id, "caption": "no change was made", "changed": True, "change_type": "drop", "change_score": 0.7}
        for row in read_rows(data_set, "val")
    ]
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    answered = outputs_from_file(path, list(read_rows(data_set, "val")))
    assert {(each.changed, each.change_type, each.change_score) for each in answered.outputs} == {(True, "drop", 0.7)}


def test_the_report_stands_alone(data_set: Path, tmp_path: Path) -> None:
    path = write_captions(tmp_path / "<p>.json", data_set, id0c="a <b>cube</b> & a ball", id5c="")
    evaluation = evaluate(str(path), data_set, replace(OPTIONS, published="clevr-change"))
    page = report_html(evaluation)
    assert "a &lt;b&gt;cube&lt;/b&gt; &amp; a ball" in page
    assert "<b>cube" not in page
    assert page.count('src="data:image/jpeg;base64,') == 2 * 3 * 6
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    for words in (
        "Best pairs",
        "Median pairs",
        "Worst pairs",
        "<svg",
        "constant caption",
        "CLIP4IDC, final version",
        "refs:20x",
    ):
        assert words in page, words
    write_report(evaluation, tmp_path / "out/report.html")
    assert (tmp_path / "out/report.html").read_text(encoding="utf-8") == page
    order = [evaluation.systems[0].items[evaluation.rows[number].id]["CIDEr-D"] for number in ranked_rows(evaluation)]
    assert order == sorted(order, reverse=True)


def test_limits_and_bad_input(data_set: Path, tmp_path: Path) -> None:
    path = write_captions(tmp_path / "p.json", data_set)
    few = evaluate(str(path), data_set, replace(OPTIONS, limit=4))
    assert len(few.rows) == 4
    assert "limit:4" in few.systems[0].signature
    with pytest.raises(DataError, match="no split 'test'"):
        evaluate(str(path), data_set, replace(OPTIONS, split="test"))
    path.write_text(json.dumps({"0c": "a"}))
    with pytest.raises(InputError, match="19 of 20 pairs have no caption, the first is id '0n'"):
        evaluate(str(path), data_set, OPTIONS)
    with pytest.raises(InputError, match="no published rows"):
        evaluate(str(path), data_set, replace(OPTIONS, published="nowhere"))


def test_duplicate_ids_are_named(data_set: Path, tmp_path: Path) -> None:
    folder = tmp_path / "twice/val"
    folder.mkdir(parents=True)
    line = json.dumps(
        {
            "id": "x",
            "before_file_name": str(data_set / "val/0_before.png"),
            "after_file_name": str(data_set / "val/0_after.png"),
            "captions": ["a"],
        }
    )
    (folder / "metadata.jsonl").write_text(f"{line}\n{line}\n")
    (tmp_path / "p.json").write_text('{"x": "a"}')
    with pytest.raises(DataError, match="'x' stands in it more than once"):
        evaluate(str(tmp_path / "p.json"), tmp_path / "twice", OPTIONS)


def test_rows_without_types_give_the_standard_numbers_only(data_set: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    lines = [
        {
            "id": row.id,
            "before_file_name": str(row.before_path),
            "after_file_name": str(row.after_path),
            "captions": list(row.captions),
        }
        for row in read_rows(data_set, "val")
    ]
    # No split folder either: the rows lie in the data set's own folder.
    (folder / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    evaluation = evaluate(str(write_captions(tmp_path / "p.json", data_set)), folder, OPTIONS)
    assert evaluation.split == "all rows"
    assert "split:all" in evaluation.systems[0].signature
    assert evaluation.systems[0].total.beyond == {}
    assert evaluation.systems[0].by_type == {}
    assert [table.header[1] for table in tables_of(evaluation)] == ["BLEU-1"]
    assert "Best pairs" in report_html(evaluation)


def test_scenes_beside_the_rows_make_facts_strict(tmp_path: Path, shared: Path) -> None:
    folder = shared / "data/blender-clevr-dev"
    rows = [json.loads(line) for line in (folder / "metadata.jsonl").read_text().splitlines()][:60]
    captions = {row["id"]: row["captions"][0] for row in rows}
    (tmp_path / "p.json").write_text(json.dumps(captions))
    evaluation = evaluate(str(tmp_path / "p.json"), folder, replace(OPTIONS, limit=60))
    clear = np.mean([row["facts"].get("unique", True) for row in rows])
    # A plain caption is right exactly where no other object shares the four attributes.
    assert evaluation.systems[0].total.beyond["fact accuracy"] == pytest.approx(clear)
    assert not any("on trust" in note for note in evaluation.notes)


def test_a_protocol_makes_the_references(data_set: Path, tmp_path: Path) -> None:
    joined = {
        row.id: " . ".join(row.captions) if row.change_type != "none" else "there is no change"
        for row in read_rows(data_set, "val")
    }
    (tmp_path / "said.json").write_text(json.dumps(joined))
    options = EvaluationOptions(meteor=False, protocol="spot-the-diff-multi")
    evaluation = evaluate(str(tmp_path / "said.json"), data_set, options)
    assert all(len(row.captions) == 1 for row in evaluation.rows)
    (system,) = evaluation.systems
    assert system.by_type["changed"].captions["BLEU-4"] == pytest.approx(1.0)
    assert "|protocol:spot-the-diff-multi|" in system.signature
    with pytest.raises(ConfigError, match="unknown protocol"):
        evaluate(str(tmp_path / "said.json"), data_set, EvaluationOptions(protocol="spot-the-dif"))


@pytest.mark.parametrize("meteor", [False, True])
def test_pairs_without_a_sentence_score_nothing_where_the_protocol_counts_them(
    data_set: Path, tmp_path: Path, meteor: bool
) -> None:
    """Spot-the-Diff's published test has seven; they are scored against an empty reference."""
    copy = tmp_path / "street"
    shutil.copytree(data_set, copy)
    captions = write_captions(tmp_path / "p.json", data_set)
    told = json.loads(captions.read_text())
    captions.write_text(json.dumps(told | {"silent": "a car left"}))
    silent = {"id": "silent", "before_file_name": "0_before.png", "after_file_name": "0_after.png"}
    (copy / "val" / "wordless.jsonl").write_text(json.dumps(silent) + "\n")
    without = evaluate(str(captions), copy, EvaluationOptions(meteor=meteor))
    options = EvaluationOptions(meteor=meteor, protocol="spot-the-diff-single")
    counted = evaluate(str(captions), copy, options)
    assert (len(without.rows), len(counted.rows)) == (20, 21)
    assert any("1 pairs have no sentence and score 0" in note for note in counted.notes)
    items = counted.systems[0].items["silent"]
    assert all(items[name] == pytest.approx(0, abs=1e-4) for name in ("BLEU-4", "ROUGE-L", "CIDEr-D"))
    scores, before = counted.systems[0].total.captions, without.systems[0].total.captions
    assert scores["ROUGE-L"] == pytest.approx(before["ROUGE-L"] * 20 / 21)
    assert scores["BLEU-4"] < before["BLEU-4"]


def test_decoding_and_length_stand_in_the_signature(data_set: Path, oracle: Any) -> None:
    rows = list(read_rows(data_set, "val"))[:2]
    assert outputs_from_model(oracle, rows, batch_size=2, beams=1, max_words=22).decoding == "greedy,22words"
    assert outputs_from_model(oracle, rows, batch_size=2, beams=3).decoding == "beam3,32words"
