"""gs://, az:// and hf:// against servers on loopback: the same verbs, the same bytes, the same errors as on a disk."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from spotchange.cli.main import app
from spotchange.errors import InputError, SpotchangeError
from spotchange.files import fetched_folder, write_bytes
from spotchange.storage import as_place

pytestmark = pytest.mark.filterwarnings("ignore")
# Azurite's own account, the same in every installation of it.
AZURITE = ("devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")  # fmt: skip # noqa: E501


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def google(patch: pytest.MonkeyPatch) -> Iterator[str]:
    gcsfs = pytest.importorskip("gcsfs", reason="the extra 'gs' is not installed")
    emulator = pytest.importorskip("gcp_storage_emulator.server", reason="pip install gcp-storage-emulator")
    port = free_port()
    server = emulator.create_server("127.0.0.1", port, in_memory=True, default_bucket="pictures")
    patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    gcsfs.GCSFileSystem.clear_instance_cache()
    server.start()
    try:
        yield "gs://pictures"
    finally:
        server.stop()


@contextmanager
def azure(patch: pytest.MonkeyPatch) -> Iterator[str]:
    adlfs = pytest.importorskip("adlfs", reason="the extra 'az' is not installed")
    command = shutil.which("azurite-blob")
    if command is None:
        pytest.skip("azurite-blob is not installed (it comes with npm install azurite, not from PyPI)")
    from azure.storage.blob import BlobServiceClient

    port, (account, key) = free_port(), AZURITE
    options = ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    server = subprocess.Popen([command, *options, *where], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    reached = (
        f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};"
        f"BlobEndpoint=http://127.0.0.1:{port}/{account};"
    )
    patch.setenv("AZURE_STORAGE_CONNECTION_STRING", reached)
    adlfs.AzureBlobFileSystem.clear_instance_cache()
    try:
        while True:
            assert server.poll() is None, "azurite ended"
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        with BlobServiceClient.from_connection_string(reached) as client:
            client.create_container("pictures")
        yield "az://pictures"
    finally:
        server.terminate()
        server.wait()


@contextmanager
def hub(patch: pytest.MonkeyPatch) -> Iterator[str]:
    hugging = pytest.importorskip("huggingface_hub", reason="the extra 'train' is not installed")
    path = Path(__file__).parent / "models" / "hub" / "hub_server.py"
    spec = importlib.util.spec_from_file_location("hub_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.Hub("hf_atestthatnobodymaysee") as server:
        server.repositories["me/pictures"] = {"private": False, "branches": {}, "commits": {}}
        server.commit("me/pictures", "main", {"README.md": b"pictures"})
        patch.setenv("HF_ENDPOINT", server.address)
        # Both are read from the environment when the library is imported, which another test may have done.
        patch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
        pattern = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        patch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", pattern)
        patch.setenv("HF_TOKEN", "hf_atestthatnobodymaysee")
        patch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        hugging.HfFileSystem.clear_instance_cache()
        yield "hf://me/pictures"
        hugging.HfFileSystem.clear_instance_cache()


@pytest.fixture(scope="module", params=[google, azure, hub], ids=["gs", "az", "hf"])
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of an empty bucket, container or repository."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spotchange.storage.stores.FIRST_PAUSE", 0.01)
        with request.param(patch) as address:
            yield address


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_files_are_written_read_listed_and_removed(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    large = os.urandom(300_000)
    files = {"one.txt": b"red", "deep/two.bin": large}
    folder = as_place(f"{store}/folder")
    for name, content in files.items():
        write_bytes(folder / name, content)
        assert (folder / name).read_bytes() == content
    assert folder.sizes() == {name: len(content) for name, content in sorted(files.items())}
    assert (folder / "one.txt").sizes() == {}
    assert [folder.is_dir(), folder.is_file(), (folder / "one.txt").is_file()] == [True, False, True]
    assert list(folder.glob("*.txt")) == [folder / "one.txt"]
    with (folder / "deep" / "two.bin").open() as stream:
        stream.seek(100_000)
        assert stream.read(50_000) == large[100_000:150_000]
    first = fetched_folder(str(folder))
    write_bytes(folder / "one.txt", b"blue")
    assert (first / "one.txt").read_bytes() == b"red"
    assert (fetched_folder(str(folder)) / "one.txt").read_bytes() == b"blue"
    (folder / "one.txt").unlink()
    assert not (folder / "one.txt").exists()
    (folder / "one.txt").unlink(missing_ok=True)
    folder.remove_all()
    assert not folder.exists()


def test_verbs_read_there_and_write_there(store: str, tmp_path: Path) -> None:
    for side, colour in {"before": "red", "after": "blue"}.items():
        (tmp_path / side).mkdir()
        for number in range(2):
            image = Image.new("RGB", (24, 16), "gray")
            image.paste(colour if number else "red", (2, 2, 9, 9))
            image.save(tmp_path / side / f"{number}.png")
            write_bytes(as_place(f"{store}/{side}/{number}.png"), (tmp_path / side / f"{number}.png").read_bytes())
    for root in (str(tmp_path), store):
        sides = (f"{root}/before", f"{root}/after")
        done = run("compare", *sides, "--workers", 1, "--out", f"{root}/compared.jsonl", "--junit", f"{root}/j.xml")
        assert done.exit_code == 0, done.exception
        done = run("caption", *sides, "--model", "pixels", "--out", f"{root}/captions.jsonl")
        assert done.exit_code == 0, done.exception
    for name in ("compared.jsonl", "captions.jsonl", "j.xml"):
        here, far = (untimed(as_place(f"{root}/{name}").read_bytes()) for root in (tmp_path, store))
        assert far == here, name


def untimed(content: bytes) -> bytes:
    """Without what a clock says."""
    return re.sub(rb'("seconds": |time=")[\d.]+', b"", content)


def test_what_is_not_there_is_one_line(store: str) -> None:
    nowhere = "hf://me/nowhere" if store.startswith("hf") else f"{store[:5]}nowhere"
    with pytest.raises(FileNotFoundError, match="does not exist"):
        as_place(f"{store}/absent.png").read_bytes()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        as_place(f"{nowhere}/absent.png").read_bytes()
    with pytest.raises(InputError, match=f"cannot write {nowhere}/new: does not exist"):
        write_bytes(as_place(f"{nowhere}/new"), b"1")
    told = run("compare", f"{nowhere}/a", f"{nowhere}/b").exception
    assert isinstance(told, SpotchangeError)
    assert told.message == f"{nowhere}/a is not a folder"
    assert "\n" not in told.message


def test_a_wrong_key_is_one_line(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not store.startswith("az"):
        pytest.skip("this server lets everybody in")
    sys.modules["adlfs"].AzureBlobFileSystem.clear_instance_cache()
    known = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", known.replace("Eby8", "AAAA"))
    with pytest.raises(PermissionError, match="no permission"):
        as_place(f"{store}/one.txt").read_bytes()
    sys.modules["adlfs"].AzureBlobFileSystem.clear_instance_cache()
