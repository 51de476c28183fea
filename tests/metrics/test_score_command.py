from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from spotchange.cli.score import score
from spotchange.errors import InputError

REFERENCES = {"a": ["the red cube is gone", "the red cube has disappeared"], "b": ["no change was made"]}


def run(folder: Path, predictions: Any, references: Any, *options: str) -> Any:
    (folder / "p.json").write_text(json.dumps(predictions))
    (folder / "r.json").write_text(json.dumps(references))
    app = typer.Typer()
    app.command()(score)
    arguments = [str(folder / "p.json"), str(folder / "r.json"), "--no-meteor", *options]
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, arguments, catch_exceptions=False)


def test_json_is_the_whole_result(tmp_path: Path) -> None:
    done = run(tmp_path, {"a": "the red cube is gone", "b": "no change"}, REFERENCES, "--json")
    found = json.loads(done.stdout)
    assert list(found["corpus"]) == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr-D"]
    assert set(found["items"]) == {"a", "b"}
    assert found["items"]["a"]["ROUGE-L"] == 1
    assert found["signature"].startswith("refs:2x1.50@")
    assert found["constant"]["caption"] in [text for texts in REFERENCES.values() for text in texts]
    low, high = found["intervals"]["CIDEr-D"]
    assert low <= found["corpus"]["CIDEr-D"] <= high


def test_the_table_has_a_floor_and_a_signature(tmp_path: Path) -> None:
    done = run(tmp_path, {"a": "the red cube is gone", "b": ""}, REFERENCES)
    for words in ("captions", "95 % interval", "constant", "CIDEr-D", "refs:2x1.50@"):
        assert words in done.stdout, words
    assert "hold no word" not in done.stdout
    assert "1 of 2 captions hold no word and score 0 (first: id 'b')" in done.stderr


def test_missing_ids_stop_or_are_counted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="id 'b' has no caption; id 'z' is not in the references"):
        run(tmp_path, {"a": "x", "z": "x"}, REFERENCES)
    done = run(tmp_path, {"a": "x", "z": "x"}, REFERENCES, "--allow-missing", "--json")
    assert list(json.loads(done.stdout)["items"]) == ["a"]
    assert "scored 1 ids that both sides have" in done.stderr
