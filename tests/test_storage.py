"""Object stores: a real S3-compatible server on loopback that stumbles, and a plain web server."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from PIL import Image, ImageDraw
from typer.testing import CliRunner, Result

from spotchange.cli.main import app
from spotchange.data import read_rows
from spotchange.data.caches.feature_writing import FeatureWriter
from spotchange.data.caches.features import FACTS, FEATURES, ROWS, FeatureFacts, FeatureRow, read_facts
from spotchange.data.shards import read_shards, unpack_shards, write_shards
from spotchange.errors import InputError, MissingExtraError, SpotchangeError
from spotchange.files import fetched_folder, write_bytes
from spotchange.storage import StorePath, as_place, beside, outgoing_folder

pytest.importorskip("s3fs", reason="the extra 's3' is not installed")
pytest.importorskip("moto", reason="moto is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


class Stumbling:
    """A WSGI application in front of the store: some requests fail, some are slow, some are refused."""

    def __init__(self, store: Callable[..., Any]) -> None:
        self.store = store
        self.fail: list[str] = []  # parts of paths whose next request fails, one entry a failure
        self.refuse = ""
        self.slow = 0.0
        self.failures = 0
        self.asked: list[tuple[str, str]] = []

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        self.asked.append((method, path.rpartition("/")[2]))
        if self.refuse and self.refuse in path:
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]
        for each in self.fail:
            if each in path and method in ("GET", "PUT"):
                self.fail.remove(each)
                self.failures += 1
                start("500 Internal Server Error", [("Content-Type", "application/xml")])
                return [b"<Error><Code>InternalError</Code><Message>We stumbled</Message></Error>"]
        if method == "GET":
            time.sleep(self.slow)
        return self.store(environ, start)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stumbling]:
    import s3fs
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = Stumbling(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("spotchange.storage.stores.FIRST_PAUSE", 0.01)
    urlopen(f"http://127.0.0.1:{server.server_port}/moto-api/reset", data=b"").close()
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem(anon=False).mkdir("pictures")
    yield application
    s3fs.S3FileSystem.clear_instance_cache()
    server.shutdown()
    server.server_close()


def draw(left: int) -> Image.Image:
    image = Image.new("RGB", (48, 32), "gray")
    ImageDraw.Draw(image).rectangle((left, 6, left + 12, 20), fill="red")
    return image


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A data set of six pairs on disk."""
    folder = tmp_path / "set" / "val"
    (folder / "images").mkdir(parents=True)
    lines = []
    for number in range(6):
        for side in ("before", "after"):
            draw(4 + number * (side == "after")).save(folder / "images" / f"{number}_{side}.png")
        names = {f"{side}_file_name": f"images/{number}_{side}.png" for side in ("before", "after")}
        lines.append({"id": f"p{number}", **names, "captions": ["the red box moved"]})
    (folder / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "set"


def upload(folder: Path, address: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            write_bytes(as_place(address) / path.relative_to(folder).as_posix(), path.read_bytes())


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def lines_of(text: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        line.pop("seconds", None)
    return lines


def test_addresses_join_like_paths() -> None:
    folder = StorePath("s3://bucket/data/val")
    assert str(folder / "images/a.png") == "s3://bucket/data/val/images/a.png"
    assert str(folder / "../b.png") == "s3://bucket/data/b.png"
    assert (folder.name, folder.parent, (folder / "x.tar.gz").suffix) == ("val", StorePath("s3://bucket/data"), ".gz")
    assert as_place("data/val") == Path("data/val")
    assert str(beside(Path("here"), "https://example.org/a.png")) == "https://example.org/a.png"
    for name in ("/etc/passwd", "../../../other/x"):
        with pytest.raises(InputError, match="leaves"):
            folder / name
    with pytest.raises(InputError, match="unknown kind of address"):
        as_place("ftp://host/x")


def test_captions_from_a_bucket_that_stumbles_are_those_from_disk(bucket: Stumbling, pairs: Path) -> None:
    upload(pairs, "s3://pictures/set")
    bucket.asked.clear()
    bucket.slow = 0.02
    bucket.fail += ["0_before.png", "3_after.png", "3_after.png", "metadata.jsonl", "out.jsonl"]
    plain = run(
        "caption", "--pairs", pairs / "val" / "metadata.jsonl", "--model", "pixels", "--out", pairs / "out.jsonl"
    )
    far = run(
        "caption",
        "--pairs",
        "s3://pictures/set/val/metadata.jsonl",
        "--model",
        "pixels",
        "--out",
        "s3://pictures/out.jsonl",
    )
    assert (plain.exit_code, far.exit_code, far.exception) == (0, 0, None)
    written = as_place("s3://pictures/out.jsonl").read_bytes().decode()
    assert lines_of(written) == lines_of((pairs / "out.jsonl").read_text())
    assert bucket.failures == 5
    images = [f"{number}_{side}.png" for number in range(6) for side in ("before", "after")]
    asked = [each for each in bucket.asked if each[1] in images]
    # A request an image, but for those that failed.
    assert sorted(asked) == sorted(("GET", name) for name in [*images, "0_before.png", "3_after.png", "3_after.png"])
    assert not as_place("s3://pictures/out.jsonl.shards").exists()


def test_data_sets_and_tar_shards_come_from_a_bucket_and_go_there(
    bucket: Stumbling, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotchange.storage.reading.AHEAD", 4096)  # many parts of a small file
    upload(pairs, "s3://pictures/set")
    assert [row.id for row in read_rows("s3://pictures/set", "val")] == [f"p{n}" for n in range(6)]
    write_shards("s3://pictures/set", "s3://pictures/tars", pairs_per_shard=4)
    write_shards(pairs, tmp_path / "tars", pairs_per_shard=4)
    for path in sorted((tmp_path / "tars").iterdir()):
        assert as_place(f"s3://pictures/tars/{path.name}").read_bytes() == path.read_bytes()
    bucket.fail += ["val-000000.tar", "val-000000.tar"]
    streamed = list(read_shards(["s3://pictures/tars/val-000000.tar"]))
    assert [pair.before for pair in streamed] == [(pairs / f"val/images/{n}_before.png").read_bytes() for n in range(4)]
    assert unpack_shards("s3://pictures/tars", tmp_path / "again") == {"val": 6}
    checked = run("data", "check", "s3://pictures/set", "--json")
    assert checked.exit_code == 0
    assert json.loads(checked.stdout)["splits"]["val"]["rows"] == 6
    measured = []
    for place in ("s3://pictures/set", "s3://pictures/tars", "s3://pictures/tars/val-*.tar"):
        done = run("evaluate", "pixels", place, "--no-meteor", "--json")
        assert done.exit_code == 0, done.output
        measured.append(json.loads(done.stdout)["systems"][0])
    assert measured[0]["items"] == measured[1]["items"] == measured[2]["items"]


def test_captions_of_tar_shards_take_a_request_for_every_part_of_a_shard(
    bucket: Stumbling, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotchange.storage.reading.AHEAD", 8192)
    write_shards(pairs, "s3://pictures/tars", pairs_per_shard=4)
    bucket.fail += ["val-000000.tar", "val-000001.index.json"]
    bucket.asked.clear()

    def told(place: object) -> list[dict[str, Any]]:
        done = run("caption", "--pairs", place, "--model", "pixels", "--json", "--batch-size", 2)
        assert done.exit_code == 0, done.exception
        return lines_of(done.stdout)

    plain = told(pairs / "val" / "metadata.jsonl")
    assert told("s3://pictures/tars") == plain
    assert bucket.failures == 2
    asked = [name for method, name in bucket.asked if method == "GET"]
    sizes = as_place("s3://pictures/tars").sizes()
    for number, shard in enumerate(("val-000000", "val-000001")):
        used = json.loads(as_place(f"s3://pictures/tars/{shard}.index.json").read_bytes())["pairs"][-1]["after"][1]
        assert sizes[f"{shard}.tar"] > 8192
        parts = asked.count(f"{shard}.tar") - 1 - (number == 0)  # without its end, and the one that failed
        assert used // 8192 + 1 <= parts <= used // 8192 + 2
        assert asked.count(f"{shard}.index.json") == 1 + (number == 1)

    as_place("s3://pictures/tars").remove_all()
    other = pairs.parent / "other"
    shutil.copytree(pairs, other)
    for number in range(6):
        draw(20 + number).save(other / "val" / "images" / f"{number}_after.png")
    write_shards(other, "s3://pictures/tars", pairs_per_shard=4)
    as_place("s3://pictures/tars/val-000000.index.json").unlink()
    assert told("s3://pictures/tars") == told(other / "val" / "metadata.jsonl") != plain  # what was kept is forgotten


def test_folders_are_fetched_once_and_again_when_they_change(
    bucket: Stumbling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write_bytes(as_place("s3://pictures/model/config.json"), b"{}")
    write_bytes(as_place("s3://pictures/model/deep/words.txt"), b"red")
    first = fetched_folder("s3://pictures/model")
    assert (first / "deep" / "words.txt").read_text() == "red"
    assert first.name == "model"  # as results call it
    assert fetched_folder("s3://pictures/model") == first
    write_bytes(as_place("s3://pictures/model/config.json"), b'{"a": 1}')
    assert (fetched_folder("s3://pictures/model") / "config.json").read_text() == '{"a": 1}'


def test_many_workers_fetch_a_folder_once(bucket: Stumbling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bucket.slow = 0.02
    write_bytes(as_place("s3://pictures/model/config.json"), b"{}")
    with ThreadPoolExecutor(8) as workers:
        found = set(workers.map(fetched_folder, ["s3://pictures/model"] * 8))
    assert [[path.name for path in folder.iterdir()] for folder in found] == [["config.json"]]
    assert bucket.asked.count(("GET", "config.json")) == 1


def test_large_files_of_a_folder_are_fetched_in_parts(
    bucket: Stumbling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotchange.storage.reading.AHEAD", 2**16)
    content = np.random.default_rng(0).bytes(5 * 2**16 + 7)
    folder = StorePath("s3://pictures/large")
    for name, each in {"deep/weights.bin": content, "empty": b""}.items():
        write_bytes(folder / name, each)
    monkeypatch.setattr("spotchange.storage.path.read_whole", None)  # nobody holds a whole file
    folder.download(tmp_path)
    assert (tmp_path / "deep" / "weights.bin").read_bytes() == content
    assert (tmp_path / "empty").read_bytes() == b""


def test_what_is_wrong_with_a_store_is_one_line(
    bucket: Stumbling, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def problem(*arguments: object) -> str:
        error = run("caption", "--model", "pixels", *arguments).exception
        assert isinstance(error, SpotchangeError), error
        assert "\n" not in error.message
        return error.message

    manifest = pairs / "val" / "metadata.jsonl"
    assert "s3://nowhere/pairs.jsonl does not exist" in problem("--pairs", "s3://nowhere/pairs.jsonl")
    assert "cannot write s3://nowhere: does not exist" in problem(
        "--pairs", manifest, "--out", "s3://nowhere/out.jsonl"
    )
    bucket.refuse = "/pictures/"
    assert "no permission" in problem("--pairs", "s3://pictures/set/pairs.jsonl")
    assert "web servers are only read" in problem("--pairs", manifest, "--out", "http://127.0.0.1:1/out.jsonl")
    assert "does not exist" in problem("s3://pictures2/a.png", "s3://pictures2/b.png")
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(MissingExtraError, match=r"spotchange\[gs\]"):
        as_place("gs://bucket/a.png").read_bytes()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


def test_images_come_from_a_web_server(pairs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotchange.storage.stores.FIRST_PAUSE", 0.01)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(pairs)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/val"
    try:
        told = run("caption", "--pairs", f"{address}/metadata.jsonl", "--model", "pixels", "--json")
        here = run("caption", "--pairs", pairs / "val" / "metadata.jsonl", "--model", "pixels", "--json")
        assert lines_of(told.stdout) == lines_of(here.stdout)
        absent = run("caption", "--model", "pixels", f"{address}/images/no.png", f"{address}/images/0_after.png")
        assert "does not exist" in str(absent.exception)
    finally:
        server.shutdown()
        server.server_close()


def test_folders_in_a_bucket_are_compared_as_on_disk(bucket: Stumbling, tmp_path: Path) -> None:
    for side in ("main", "branch"):
        (tmp_path / side / "deep").mkdir(parents=True)
        for number in range(3):
            draw(4 + number * (side == "branch")).save(tmp_path / side / "deep" / f"{number}.png")
    draw(1).save(tmp_path / "branch" / "new.png")
    (tmp_path / "branch" / "bad.png").write_bytes(b"no picture")
    draw(1).save(tmp_path / "main" / "bad.png")
    for side in ("main", "branch"):
        upload(tmp_path / side, f"s3://pictures/{side}")
    bucket.fail += ["deep/1.png", "all.jsonl"]

    def compare(root: str, out: str) -> dict[str, bytes]:
        written = {kind: f"{out}/{name}" for kind, name in OUTPUTS.items()}
        done = run(
            "compare",
            f"{root}/main",
            f"{root}/branch",
            "--json",
            "--workers",
            1,
            *(word for kind, name in written.items() for word in (f"--{kind}", name)),
        )
        assert str(done.exception) == "1 of 5 images cannot be read; their lines say why"
        names = [*OUTPUTS.values(), "diffs/deep/1.png"]
        files = {name: as_place(f"{out}/{name}").read_bytes() for name in names if "." in name}
        return {"printed": done.stdout.encode(), **files}

    here, far = compare(str(tmp_path), str(tmp_path)), compare("s3://pictures", "s3://pictures")
    assert here.keys() == far.keys()
    for name, content in far.items():
        text = content.replace(b"s3://pictures", str(tmp_path).encode())
        assert untimed(text) == untimed(here[name]), name
    assert bucket.failures == 2
    # The baseline is brought up to date in its bucket.
    done = run("compare", "s3://pictures/main", "s3://pictures/branch", "--include", "deep/*", "--update-baseline")
    assert done.exit_code == 0, done.exception
    for number in range(3):
        name = f"deep/{number}.png"
        assert as_place(f"s3://pictures/main/{name}").read_bytes() == (tmp_path / "branch" / name).read_bytes()


OUTPUTS = {"out": "all.jsonl", "junit": "junit.xml", "markdown": "all.md", "report": "all.html", "diff-dir": "diffs"}


def untimed(content: bytes) -> bytes:
    """Without what a clock says, and without Markdown's escapes, which depend on the folder's name."""
    return re.sub(rb'("seconds": |time=")[\d.]+', b"", content).replace(b"\\", b"")


def test_data_sets_are_generated_into_a_bucket_and_gone_on_with(
    bucket: Stumbling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotchange.storage.outgoing._kept_here", lambda out: tmp_path / "kept")
    rest = ("generate", "--size", "48x32", "--quality", "fast", "--masks", "--device", "cpu", "--pairs")
    assert run(*rest, 8, "--out", tmp_path / "here").exit_code == 0
    assert run(*rest, 4, "--out", "s3://pictures/toy").exit_code == 0
    as_place("s3://pictures/toy/train/images/000001_same.png").unlink()
    bucket.fail += ["000000_after.png", "000002_before.png"]  # the first is there, and not written again
    told = run(*rest, 8, "--out", "s3://pictures/toy", "--json")
    assert told.exit_code == 0, told.exception
    assert json.loads(told.stdout)["splits"][0]["new_pairs"] == 4
    assert bucket.fail == ["000000_after.png"]
    far = as_place("s3://pictures/toy")
    files = {path.relative_to(tmp_path / "here").as_posix(): path for path in (tmp_path / "here").rglob("*.*")}
    assert set(far.sizes()) == {name for name in files if not name.endswith(".lock")}
    for name in far.sizes():
        assert (far / name).read_bytes() == files[name].read_bytes(), name
    assert not (tmp_path / "kept").exists()
    assert "another seed" in str(run(*rest, 8, "--out", "s3://pictures/toy", "--seed", 3).exception)


def test_features_go_to_a_bucket_when_they_are_whole(
    bucket: Stumbling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotchange.storage.outgoing._kept_here", lambda out: tmp_path / "kept")
    facts = FeatureFacts(task="pairs", backbone="x", image_size=(8, 8), grid=(1, 2), channels=3)
    out = as_place("s3://pictures/features")
    row = FeatureRow(before=0, after=0, captions=("a",))

    def write(*, stops: bool) -> int:
        with outgoing_folder(out, (FEATURES, ROWS, FACTS)) as outgoing:
            writer = FeatureWriter(outgoing, facts, labels=("a", "b"))
            begun = writer.parts
            for label in ("a", "b")[begun:]:
                writer.add(np.ones((1, 2, 3)), [row], label)
                if stops:
                    raise KeyboardInterrupt
            writer.finish()
        return begun

    with pytest.raises(KeyboardInterrupt):
        write(stops=True)
    assert out.sizes() == {}
    assert write(stops=False) == 1  # the first part was kept here
    assert not (tmp_path / "kept").exists()
    assert read_facts(fetched_folder(str(out))).rows == 2
    with pytest.raises(InputError, match="already holds features"):
        write(stops=False)
