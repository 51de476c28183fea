"""The paper's attention figure: numbers, layout, command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from spotchange.cli.models import app
from spotchange.errors import InputError, ModelError
from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.build import build_model, settings_for
from spotchange.models.explain.attention import attention_figure, attention_maps
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.weights.folder import save_model


@torch.no_grad()
def test_maps_are_the_blocks_attention(make_model: Callable, images: Callable) -> None:
    model = make_model()
    before, after = images(model, 1)
    maps = attention_maps(model, before, after)
    assert list(maps) == ["intra", "inter"]
    assert all(each.shape == (2, 2, 3) and each.amax() == 1 for each in maps.values())
    # By hand: everything up to the last intra block, then its class token's attention.
    backbone = model.encoder.backbone
    tokens = torch.cat([backbone.class_token.expand(1, 1, -1), backbone.patches(after)], dim=1) + backbone.positions
    tokens = backbone.norm(tokens)
    for block in list(backbone.blocks)[:-1]:
        tokens = block(tokens)
    last = backbone.blocks[-1]
    queries, keys, _ = last.attention.query_key_value(last.attention_norm(tokens)).chunk(3, dim=-1)
    queries, keys = (each.unflatten(-1, (2, 32)).transpose(1, 2) for each in (queries, keys))
    weights = (queries[:, :, :1] @ keys.transpose(-1, -2) / 32**0.5).softmax(-1).mean(1)[0, 0, 1:].reshape(2, 3)
    torch.testing.assert_close(maps["intra"][1], weights / weights.max())
    assert not backbone.blocks[-1]._forward_pre_hooks


def test_models_without_some_blocks(make_model: Callable, images: Callable) -> None:
    clip_ft = make_model("clip-ft")
    assert list(attention_maps(clip_ft, *images(clip_ft, 1))) == ["intra"]
    conventional = make_model("conventional")
    with pytest.raises(ModelError, match="no transformer block"):
        attention_maps(conventional, *images(conventional, 1))


def test_figure_has_two_rows_and_three_columns() -> None:
    before, after = (Image.new("RGB", (90, 60), colour) for colour in ("red", "blue"))
    heat = torch.zeros(2, 2, 3)
    heat[1, 1, 2] = 1.0
    figure = attention_figure(before, after, {"intra": heat, "inter": heat}, caption="a cube moved", references=["b"])
    cell = (360 + 8, 240 + 8)
    assert figure.width == 3 * cell[0] + 8
    assert figure.getpixel((100, 100)) == (255, 0, 0)
    assert figure.getpixel((100, 100 + cell[1])) == (0, 0, 255)
    hot, cold = figure.getpixel((2 * cell[0] - 20, 2 * cell[1] - 20)), figure.getpixel((cell[0] + 20, cell[1] + 60))
    assert sum(hot) > sum(cold) + 150


def test_command_line(make_settings: Callable, tmp_path: Path) -> None:
    tokenizer = build_tokenizer()
    settings = settings_for(make_settings(), tokenizer)
    save_model(
        tmp_path / "model",
        model=build_model(settings),
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=Preprocessor(image_size=settings.vision.image_size),
    )
    for name, colour in (("before", "red"), ("after", "blue")):
        Image.new("RGB", (90, 60), colour).save(tmp_path / f"{name}.png")
    call = ["attention", str(tmp_path / "before.png"), str(tmp_path / "after.png"), "--model", str(tmp_path / "model")]
    done = CliRunner().invoke(app, [*call, "--out", str(tmp_path / "map.png"), "--reference", "nothing changed"])
    assert done.exit_code == 0, done.output
    with Image.open(tmp_path / "map.png") as figure:
        assert figure.width == 3 * (360 + 8) + 8
        assert figure.getpixel((200, 150)) == (255, 0, 0)
        assert figure.getpixel((200, 150 + 248)) == (0, 0, 255)
    wrong = CliRunner().invoke(app, [*call, "--out", str(tmp_path / "map.txt")])
    assert isinstance(wrong.exception, InputError)
