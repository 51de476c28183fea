"""The page's inputs hand over files as they came, and pairs are found in zips and folders without unpacking them."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import pytest

from spotchange.serving.api.problems import Problem
from spotchange.serving.page.files import check_source, confine
from spotchange.serving.page.inputs import files_input, image_input
from spotchange.serving.page.pair_files import pairs_of_folders, pairs_of_zip
from spotchange.serving.settings import ServerSettings

Draw = Callable[..., bytes]
SETTINGS = ServerSettings(max_image_bytes=5_000, max_page_pairs=3)


def test_an_image_is_handed_over_undecoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    component = image_input("Before")
    file = tmp_path / "not-a-picture.png"
    file.write_bytes(b"text")
    assert component.preprocess(SimpleNamespace(path=str(file))) == file
    assert component.preprocess(None) is None


@pytest.mark.parametrize(
    "path", ["http://example.invalid/a.png", "file:///etc/passwd", "/etc/passwd", "\0", "a" * 9999]
)
def test_files_from_elsewhere_are_refused(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    components = [image_input("Before"), files_input("Zip", name="zip"), gr.Number(), gr.DownloadButton()]
    blocks = SimpleNamespace(blocks=dict(enumerate(components)), has_launched=False)
    confine(blocks, examples=tmp_path)  # type: ignore[arg-type]
    assert blocks.has_launched
    for component in components:
        with pytest.raises(gr.Error, match=r"not (its address|uploaded here)"):
            asyncio.run(component.async_move_resource_to_block_cache(path))
        with pytest.raises(gr.Error, match=r"not (its address|uploaded here)"):
            component.move_resource_to_block_cache(path)
    with pytest.raises(gr.Error):
        components[0].preprocess(SimpleNamespace(path=path))


def test_a_link_out_of_the_uploads_is_refused(tmp_path: Path) -> None:
    (tmp_path / "uploads").mkdir()
    (tmp_path / "secret").write_text("x")
    (tmp_path / "uploads" / "link").symlink_to(tmp_path / "secret")
    for path in (tmp_path / "uploads" / "link", tmp_path / "uploads" / ".." / "secret", tmp_path / "uploads"):
        with pytest.raises(gr.Error, match="not uploaded here"):
            check_source(path, [tmp_path / "uploads"])
    check_source(tmp_path / "secret", [tmp_path])


def test_no_stub_is_written_beside_the_code() -> None:
    import spotchange.serving

    assert not list(Path(spotchange.serving.__file__).parent.glob("*.pyi"))


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return path


def test_pairs_in_a_zip(tmp_path: Path, draw: Draw) -> None:
    members = {
        "set/Before/deep/a.png": draw(1),
        "set/After/deep/a.png": draw(2),
        "b_before.jpg": draw(3),
        "b_after.jpg": draw(4),
        "before/only.png": draw(5),
        "__MACOSX/before/._a.png": b"x",
        "__MACOSX/after/._a.png": b"x",
        "before/../../../etc/x.png": draw(6),
        "readme.txt": b"hello",
    }
    found = pairs_of_zip(write_zip(tmp_path / "a.zip", members), SETTINGS)
    pairs = found.pairs
    assert found.alone == ["before/only.png", "before/../../../etc/x.png"]  # nothing is left out unsaid
    assert [pair.id for pair in pairs] == ["b", "deep/a.png"]
    assert [pair.read_before() for pair in pairs] == [draw(3), draw(1)]
    assert [pair.read_after() for pair in pairs] == [draw(4), draw(2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip"]


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, draw: Draw) -> None:
    members = {"before/a.png": bytes(50_000_000), "after/a.png": draw(1)}
    (pair,) = pairs_of_zip(write_zip(tmp_path / "bomb.zip", members), SETTINGS).pairs
    with pytest.raises(Problem, match="more than") as caught:
        pair.read_before()
    assert caught.value.status == 413


def test_a_zip_that_lies_about_a_size(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"before/a.png": bytes(100_000), "after/a.png": b"x"})
    size = (100_000).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (10).to_bytes(4, "little")))
    (pair,) = pairs_of_zip(path, SETTINGS).pairs
    with pytest.raises(Problem):
        pair.read_before()


def test_zips_that_are_refused(tmp_path: Path, draw: Draw) -> None:
    (tmp_path / "no.zip").write_bytes(b"not a zip")
    cases = {
        tmp_path / "no.zip": "not a zip file",
        write_zip(tmp_path / "none.zip", {"a.png": draw(1)}): "no pair",
        write_zip(tmp_path / "many.zip", {f"{side}/{n}.png": b"x" for n in range(4) for side in ("before", "after")}): (
            "more than the limit of 3"
        ),
    }
    for path, words in cases.items():
        with pytest.raises(Problem, match=words):
            pairs_of_zip(path, SETTINGS)


def test_an_encrypted_member(tmp_path: Path, draw: Draw) -> None:
    path = write_zip(tmp_path / "a.zip", {"before/a.png": draw(1), "after/a.png": draw(2)})
    content = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(mark)
        while place >= 0:
            content[place + offset] |= 1
            place = content.find(mark, place + 1)
    path.write_bytes(bytes(content))
    (pair,) = pairs_of_zip(path, SETTINGS).pairs
    with pytest.raises(Problem, match="encrypted"):
        pair.read_before()


def test_pairs_of_two_folders(tmp_path: Path, draw: Draw) -> None:
    files = {name: tmp_path / name.replace("/", "-") for name in ("main/x/a.png", "branch/x/a.png", "main/b.png")}
    for number, path in enumerate(files.values()):
        path.write_bytes(draw(number))
    before = [(name, path) for name, path in files.items() if name.startswith("main")]
    after = [(name, path) for name, path in files.items() if name.startswith("branch")]
    found = pairs_of_folders(before, after, SETTINGS)
    (pair,) = found.pairs
    assert found.alone == ["before/b.png"]
    assert (pair.id, pair.read_before(), pair.read_after()) == ("x/a.png", draw(0), draw(1))
    with pytest.raises(Problem, match="same name"):
        pairs_of_folders(before, [], SETTINGS)
