"""A real model folder, as small as they come, through the whole path; its numbers mean nothing, their shape does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from spotchange.cli.evaluate import evaluate
from spotchange.data import read_rows


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    from spotchange.config.model import ModelSettings
    from spotchange.language.vocabulary import build_tokenizer
    from spotchange.models.build import build_model, settings_for
    from spotchange.models.vision.preprocess import Preprocessor
    from spotchange.models.weights.folder import save_model

    settings = ModelSettings.model_validate(
        {
            "architecture": "clip4idc",
            "vision": {"image_size": [32, 48], "patch": 16, "width": 32, "heads": 2, "layers": 2, "output_width": 16}
            | {"n_inter": 1},
            "text": {"width": 16, "heads": 2, "layers": 1, "context": 12},
            "captioner": {"width": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1},
        }
    )
    tokenizer = build_tokenizer()
    settings = settings_for(settings, tokenizer)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model") / "tiny"
    preprocessor = Preprocessor(image_size=(32, 48))
    save_model(folder, model=build_model(settings), settings=settings, tokenizer=tokenizer, preprocessor=preprocessor)
    return folder


def run(*arguments: str) -> Any:
    import typer

    app = typer.Typer()
    app.command()(evaluate)
    return CliRunner().invoke(app, [*arguments, "--no-meteor", "--device", "cpu"], catch_exceptions=False)


def test_evaluate_from_the_command_line(model_folder: Path, data_set: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = run(
        str(model_folder),
        str(data_set),
        "--json",
        "--retrieval",
        "--report",
        str(report),
        "--beam",
        "2",
    )
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    (system,) = found["systems"]
    assert system["name"] == "tiny"
    assert f"model:tiny@{system['signature'].split('model:tiny@')[1][:8]}" in system["signature"]
    directions = {"pair to text", "text to pair"}
    assert set(system["retrieval"]) == directions | {f"{direction}, published rule" for direction in directions}
    assert "retrieval:best-right-answer,ties-half+clip4idc-caption-groups" in system["signature"]
    assert "decoding:beam2,32words" in system["signature"]
    assert 1 <= system["retrieval"]["pair to text"]["mean rank"] <= 20
    assert {"change accuracy", "pointing", "coverage", "fact accuracy"} <= set(system["beyond"])
    assert len(system["items"]) == found["pairs"] == 20
    assert "Worst pairs" in report.read_text(encoding="utf-8")


def test_the_tables_for_people(model_folder: Path, data_set: Path) -> None:
    done = run(str(model_folder), str(data_set), "--limit", "6", "--published", "clevr-change")
    assert done.exit_code == 0
    for words in ("constant", "BLEU-4", "CIDEr-D by change type", "refs:6x2.00", "limit:6"):
        assert words in done.stdout, words


def test_embeddings_rank_what_they_are_made_of(model_folder: Path, data_set: Path) -> None:
    from spotchange.answering import load
    from spotchange.evaluation.retrieval import embed_pairs, embed_texts, rank_captions, rank_pairs

    captioner = load(model_folder, device="cpu")
    pairs = [(row.before_path, row.after_path) for row in read_rows(data_set, "val")][:5]
    together, alone = embed_pairs(captioner, pairs, batch_size=5), embed_pairs(captioner, pairs[2:3], batch_size=1)
    np.testing.assert_allclose(together[2], alone[0], atol=1e-5)
    texts = ["the red cube moved", "no change was made " * 9, "cube"]
    embedded = embed_texts(captioner, texts)
    np.testing.assert_allclose(np.linalg.norm(embedded, axis=1), 1, atol=1e-5)
    # Padding beside longer sentences must not change a short one.
    np.testing.assert_allclose(embedded[2], embed_texts(captioner, ["cube"])[0], atol=1e-5)
    ranked = rank_captions(captioner, pairs[0], texts)
    assert [text for text, _ in ranked] == [texts[place] for place in np.argsort(-(embedded @ together[0]))]
    places = rank_pairs(captioner, texts[0], pairs)
    assert [place for place, _ in places] == np.argsort(-(together @ embedded[0])).tolist()
    assert places[0][1] >= places[-1][1]
