"""What a notebook shows of results and captioners, and the bar over many pairs."""

from __future__ import annotations

import base64
import copy
import io
import pickle
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spotchange
from spotchange.answering.notebook import SIDE, in_notebook


@pytest.fixture(scope="module")
def captioner() -> spotchange.Captioner:
    return spotchange.load("pixels")


def pair() -> tuple[Image.Image, Image.Image]:
    before = Image.new("RGB", (600, 300), "white")
    after = before.copy()
    after.paste((200, 30, 30), (80, 60, 180, 160))
    return before, after


class Page(HTMLParser):
    """Which elements there are, and whether they are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.images.append(dict(attributes))
        elif tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def decoded(image: dict[str, str | None]) -> Image.Image:
    content = re.fullmatch(r"data:image/png;base64,(.*)", str(image["src"]))
    assert content is not None
    return Image.open(io.BytesIO(base64.b64decode(content[1])))


def test_a_result_shows_both_images_with_boxes_and_the_sentence(captioner: spotchange.Captioner) -> None:
    result = captioner.caption(*pair())
    page = Page(result._repr_html_())
    assert page.open == []
    assert result.caption in page.text
    before, after = map(decoded, page.images)
    assert max(before.size) == max(after.size) == SIDE
    region = next(each for each in result.regions if each.image == "after")
    scale = SIDE / 600
    edge = after.convert("RGB").getpixel((round(region.box[0] * scale), round((region.box[1] + 5) * scale)))
    assert edge == (255, 45, 85)
    assert repr(result).startswith("<changed (")
    assert result.caption in repr(result)


def test_text_is_escaped(captioner: spotchange.Captioner) -> None:
    bad = "<script>alert('x')</script> & more"
    result = replace(captioner.caption(*pair()), caption=bad, model=bad, warnings=(bad,))
    shown = result._repr_html_()
    assert "<script" not in shown
    page = Page(shown)
    assert page.text.count(bad) == 3
    assert page.images == []  # a changed copy is another result: it has no images


def test_paths_are_shown_as_long_as_they_are_the_same(captioner: spotchange.Captioner, tmp_path: Path) -> None:
    paths = [tmp_path / "before.png", tmp_path / "after.png"]
    for path, image in zip(paths, pair(), strict=True):
        image.save(path)
    result = captioner.caption(*map(str, paths))
    assert len(Page(result._repr_html_()).images) == 2
    Image.new("RGB", (10, 10)).save(paths[1])
    page = Page(result._repr_html_())
    assert len(page.images) == 1
    assert "has changed on disk" in page.text
    paths[0].unlink()
    assert Page(result._repr_html_()).images == []


def test_images_are_no_part_of_the_result(captioner: spotchange.Captioner) -> None:
    result = captioner.caption(*pair())
    again = pickle.loads(pickle.dumps(result))
    assert again == replace(result) == copy.copy(result)
    assert Page(again._repr_html_()).images == []
    assert "_show" not in result.to_dict()


def test_answers_and_captioners_show_themselves(captioner: spotchange.Captioner) -> None:
    answer = captioner.answer(*pair())
    page = Page(answer._repr_html_())
    assert len(page.images) == 2
    assert answer.result.caption in page.text
    assert repr(captioner) == "<Captioner pixels: pixel comparison, on cpu>"
    assert "pixel comparison" in Page(captioner._repr_html_()).text


def test_tensors_file_objects_and_data_urls_give_the_same_answer(captioner: spotchange.Captioner) -> None:
    import torch

    expected = captioner.caption(*pair())
    files = []
    for image in pair():
        stream = io.BytesIO()
        image.save(stream, "PNG")
        files.append(stream.getvalue())
    given: list[list[Any]] = [
        [np.asarray(each).transpose(2, 0, 1) for each in pair()],
        [torch.from_numpy(np.array(each)).permute(2, 0, 1) / 255 for each in pair()],
        [io.BytesIO(each) for each in files],
        ["data:image/png;base64," + base64.b64encode(each).decode() for each in files],
    ]
    for before, after in given:
        result = captioner.caption(before, after)
        assert (result.caption, result.regions) == (expected.caption, expected.regions)
        assert len(Page(result._repr_html_()).images) == 2
    with pytest.raises(spotchange.SpotchangeError, match="after: tensor of shape"):
        captioner.caption(torch.zeros(3, 8, 8), torch.zeros(3, 8, 3))


def test_many_pairs_with_a_bar(captioner: spotchange.Captioner, capsys: pytest.CaptureFixture[str]) -> None:
    results = list(captioner.caption_many([pair()] * 3, progress=True))
    assert len(results) == 3
    told = capsys.readouterr()
    assert "3/3" in told.err
    assert told.out == ""
    list(captioner.caption_many(iter([pair()] * 2)))
    assert capsys.readouterr().err == ""


def test_notebooks_are_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not in_notebook()
    kernel = type("ZMQInteractiveShell", (), {})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=kernel))
    assert in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not in_notebook()
