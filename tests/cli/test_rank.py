"""`spotchange rank` both ways, with a small random model that has both towers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from spotchange.cli.main import app
from spotchange.config.model import ModelSettings
from spotchange.errors import InputError, ModelError
from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.build import build_model, preprocessor_for
from spotchange.models.weights.folder import save_model

TINY = {"preset": "spotchange-tiny", "captioner": None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings = ModelSettings.model_validate(TINY)
    save_model(
        tmp_path / "model",
        model=build_model(settings),
        settings=settings,
        tokenizer=build_tokenizer(),
        preprocessor=preprocessor_for(settings),
    )
    rng = np.random.default_rng(2)
    for name in ("a", "b", "c"):
        Image.fromarray(rng.integers(0, 255, (48, 72, 3), dtype=np.uint8)).save(tmp_path / f"{name}.png")
    return tmp_path


def run(*arguments: object) -> list[dict[str, object]]:
    result = CliRunner().invoke(app, ["rank", *map(str, arguments), "--json", "--device", "cpu"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_sentences_are_ranked_for_a_pair(folder: Path) -> None:
    sentences = folder / "sentences.txt"
    sentences.write_text("the cube moved\n\nthe red ball is gone\nthe cube moved\nthere is no change\n")
    images = (folder / "a.png", folder / "b.png", "--captions", sentences, "--model", folder / "model")
    lines = run(*images)
    assert sorted(str(line["caption"]) for line in lines) == [
        "the cube moved",
        "the red ball is gone",
        "there is no change",
    ]
    similarities = [line["similarity"] for line in lines]
    assert similarities == sorted(similarities, reverse=True)
    assert [line["rank"] for line in lines] == [1, 2, 3]
    assert run(*images, "--top", 1) == lines[:1]


def test_what_the_model_cannot_read_is_said(folder: Path) -> None:
    sentences = folder / "sentences.txt"
    sentences.write_text("the cube moved\na Banana moved the cube\n" + 40 * "the cube " + "\n")
    images = (folder / "a.png", folder / "b.png", "--captions", sentences, "--model", folder / "model")
    result = CliRunner().invoke(app, ["rank", *map(str, images), "--device", "cpu"])
    assert "words that model does not know: Banana" in result.stderr
    assert "1 of 3 sentences are too long" in result.stderr


def test_pairs_are_ranked_for_a_sentence(folder: Path) -> None:
    manifest = folder / "metadata.jsonl"
    rows = [("one", "a", "b"), ("two", "a", "c"), ("three", "b", "c")]
    manifest.write_text(
        "".join(
            json.dumps({"id": id, "before_file_name": f"{x}.png", "after_file_name": f"{y}.png"}) + "\n"
            for id, x, y in rows
        )
    )
    lines = run("--text", "the cube moved", "--pairs", manifest, "--model", folder / "model")
    assert sorted(str(line["id"]) for line in lines) == ["one", "three", "two"]
    (best,) = run("--text", "the cube moved", "--pairs", manifest, "--model", folder / "model", "--top", 1)
    assert best == lines[0]


def test_half_a_question_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="two images and --captions"):
        run(folder / "a.png", folder / "b.png")
    empty = folder / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(InputError, match="no sentence"):
        run(folder / "a.png", folder / "b.png", "--captions", empty)


def test_a_model_without_a_text_tower_says_that_it_cannot_rank(folder: Path) -> None:
    settings = ModelSettings.model_validate({"preset": "spotchange-tiny", "text": {"encoder": False}})
    save_model(
        folder / "mute",
        model=build_model(settings),
        settings=settings,
        tokenizer=build_tokenizer(),
        preprocessor=preprocessor_for(settings),
    )
    sentences = folder / "sentences.txt"
    sentences.write_text("the cube moved\n")
    with pytest.raises(ModelError, match="cannot rank"):
        run(folder / "a.png", folder / "b.png", "--captions", sentences, "--model", folder / "mute")
