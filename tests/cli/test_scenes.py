"""`spotchange scenes`: nouns, and things of one's own; `generate --world everyday` with them."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image
from typer.testing import CliRunner

from spotchange.cli.main import app


def test_nouns_are_a_tree() -> None:
    shown = CliRunner().invoke(app, ["scenes", "nouns"]).output.splitlines()
    assert "    cup" not in shown
    assert "  cup" in shown
    assert shown[shown.index("  cup") + 1] == "    mug"
    assert json.loads(CliRunner().invoke(app, ["scenes", "nouns", "--json"]).output)["mug"] == "cup"


def test_things_of_ones_own_become_pairs(tmp_path: Path) -> None:
    things, photos, library = tmp_path / "things", tmp_path / "photos", tmp_path / "library"
    things.mkdir()
    photos.mkdir()
    for noun, colour in (("mug", "red"), ("dog", "brown")):
        Image.new("RGBA", (40, 40), colour).save(things / f"{noun}_1.png")
    Image.effect_noise((64, 48), 40).convert("RGB").save(photos / "wall.png")
    command = ["scenes", "add-objects", str(things), "--library", str(library), "--backgrounds", str(photos), "--json"]
    added = json.loads(CliRunner().invoke(app, command).output)
    assert (added["objects"], added["backgrounds"], added["unknown"]) == (2, 1, [])
    made = tmp_path / "made"
    command = ["generate", "--world", "everyday", "--library", str(library), "--pairs", "3", "--size", "64x64"]
    written = json.loads(CliRunner().invoke(app, [*command, "--out", str(made), "--device", "cpu", "--json"]).output)
    assert written["splits"][0]["pairs"] == 3
    assert len((made / "train" / "metadata.jsonl").read_text(encoding="utf-8").splitlines()) == 3


def test_a_split_that_is_none_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["scenes", "add-objects", str(tmp_path), "--library", "x", "--split", "other"])
    assert result.exit_code != 0
