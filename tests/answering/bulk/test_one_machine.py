"""Many pairs: what was answered before is used again only where nothing it was made from has changed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image, ImageDraw

from spotchange.answering import CaptionOptions, load
from spotchange.answering.bulk.fingerprint import asked_fingerprint
from spotchange.answering.bulk.one_machine import (
    NamedPair,
    pairs_from_folders,
    pairs_from_manifest,
    unpaired,
    write_results,
)
from spotchange.errors import InputError
from spotchange.images import images_in


def draw(path: Path, color: str) -> Path:
    image = Image.new("RGB", (96, 64), "gray")
    ImageDraw.Draw(image).rectangle((10, 10, 50, 50), fill=color)
    path.parent.mkdir(exist_ok=True)
    image.save(path)
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> list[NamedPair]:
    before = draw(tmp_path / "before.png", "red")
    return [NamedPair(id=name, before=before, after=draw(tmp_path / f"{name}.png", name)) for name in ("red", "blue")]


def caption(pairs: list[NamedPair], out: Path, **more: Any) -> list[str]:
    """Write results; which pairs were looked at."""
    options = more.pop("options", CaptionOptions())
    captioner, looked = load("pixels"), []
    answer = captioner.answerer.answer

    def counted(given: Any, options: CaptionOptions) -> Any:
        looked.extend(pair.after.source.stem for pair in given)
        return answer(given, options)

    captioner.answerer = SimpleNamespace(card=captioner.answerer.card, answer=counted)  # type: ignore[assignment]
    asked = more.pop("asked", asked_fingerprint("pixels", {}, options))
    write_results(captioner, pairs, out, asked=asked, options=options, batch_size=1, advance=lambda _: None, **more)
    return looked


def changed(out: Path) -> dict[str, bool]:
    return {line["id"]: line["changed"] for line in map(json.loads, out.read_text().splitlines())}


def test_a_second_run_looks_at_nothing(pairs: list[NamedPair], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert caption(pairs, out) == ["red", "blue"]
    assert changed(out) == {"red": False, "blue": True}
    assert caption(pairs, out) == []
    assert caption(pairs, out, force=True) == ["red", "blue"]


def test_another_image_option_or_model_is_looked_at_again(pairs: list[NamedPair], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    caption(pairs, out)
    draw(tmp_path / "red.png", "green")
    assert caption(pairs, out) == ["red"]
    assert changed(out) == {"red": True, "blue": True}
    blind = CaptionOptions(ignore=((0, 0, 1000, 1000),))
    assert caption(pairs, out, options=blind) == ["red", "blue"]
    assert changed(out) == {"red": False, "blue": False}
    assert caption(pairs, out, options=blind, asked="another model") == ["red", "blue"]


def test_lines_without_a_fingerprint_are_computed_again(pairs: list[NamedPair], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    caption(pairs, out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    out.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "fingerprint"}) + "\n" for line in lines))
    assert caption(pairs, out) == ["red", "blue"]


@pytest.mark.parametrize("cut", [0, 40])
def test_an_interrupted_run_loses_no_finished_line(pairs: list[NamedPair], tmp_path: Path, cut: int) -> None:
    out, partial = tmp_path / "out.jsonl", tmp_path / "out.jsonl.partial"
    caption(pairs, out)
    whole = out.read_bytes()
    first, second = whole.splitlines(keepends=True)
    out.unlink()
    partial.write_bytes(first + second[:cut])

    class Interrupted(Exception):
        pass

    def stop(steps: int) -> None:
        assert partial.read_bytes() == first or steps == 1
        if cut:
            raise Interrupted

    if cut:
        captioner = load("pixels")
        asked = asked_fingerprint("pixels", {}, CaptionOptions())
        with pytest.raises(Interrupted):
            write_results(captioner, pairs, out, asked=asked, options=CaptionOptions(), batch_size=1, advance=stop)
        assert partial.read_bytes().startswith(first)
    assert caption(pairs, out) == ["blue"]
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["red", "blue"]
    assert not partial.exists()


def test_two_writers(pairs: list[NamedPair], tmp_path: Path) -> None:
    from spotchange.locks import one_writer

    with one_writer(tmp_path / "out.jsonl"), pytest.raises(InputError, match="is being written by"):
        caption(pairs, tmp_path / "out.jsonl")


def test_the_model_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    marks = set()
    for name, text in (("config.json", "{}"), ("config.json", "{ }"), ("calibration.json", "{}"), ("README.md", "x")):
        (folder / name).write_text(text)
        marks.add(asked_fingerprint(folder, {}, CaptionOptions()))
    assert len(marks) == 3  # what people read changes no answer
    marks.add(asked_fingerprint(folder, {}, CaptionOptions(ignore=[(0, 0, 1, 1)])))
    assert len(marks) == 4


def test_what_a_folder_named_in_an_option_holds_is_part_of_the_question(tmp_path: Path) -> None:
    adapter, examples = tmp_path / "adapter", tmp_path / "set"
    (examples / "train").mkdir(parents=True)
    adapter.mkdir()
    marks = set()
    for place in (adapter / "adapter_model.safetensors", examples / "train" / "metadata.jsonl"):
        for content in ("first", "second"):
            place.write_text(content)
            options = {"adapter": str(adapter), "few_shot": str(examples)}
            marks.add(asked_fingerprint("vlm:somewhere/base", options, CaptionOptions()))
    assert len(marks) == 4


def test_half_written_files_are_no_images(tmp_path: Path) -> None:
    draw(tmp_path / "a.png", "red")
    draw(tmp_path / ".a.x1y2z3w4.png", "red")
    (tmp_path / "folder.png").mkdir()
    assert images_in(tmp_path) == {"a.png"}


def test_images_without_a_partner_are_named(tmp_path: Path) -> None:
    for side, names in (("a", ("both.png", "gone.png")), ("b", ("both.png", "new.png"))):
        for name in names:
            draw(tmp_path / side / name, "red")
    assert [path.name for path in unpaired(tmp_path / "a", tmp_path / "b")] == ["gone.png", "new.png"]
    assert [pair.id for pair in pairs_from_folders(tmp_path / "a", tmp_path / "b")] == ["both.png"]


def test_a_manifest_may_say_before_and_after(tmp_path: Path) -> None:
    manifest = tmp_path / "pairs.jsonl"
    manifest.write_text('{"id": "1", "before": "x.png", "after": "y.png"}\n')
    (pair,) = pairs_from_manifest(manifest)
    assert (pair.before, pair.after) == (tmp_path / "x.png", tmp_path / "y.png")
