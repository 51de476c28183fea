"""Servers behind a certificate authority of one's own: believed where it is named, and nowhere else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from asked import GOOD, ask

from scripted_server import completion
from spotchange.answering.interface import Answer
from spotchange.answering.vlm.build import build_vlm
from spotchange.errors import InputError, ReplyError


@pytest.fixture(scope="session")
def certificate(openssl: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 127.0.0.1, with its key in the same file; it vouches for itself."""
    folder = tmp_path_factory.mktemp("certificate")
    command = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=own -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run([openssl, *command.split(), *files], check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_bytes(b"".join((folder / name).read_bytes() for name in ("key.pem", "certificate.pem")))
    return both


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)


def test_an_authority_that_nobody_named_is_not_trusted(serve: Any, certificate: Path) -> None:
    server = serve(lambda body, tries: completion(GOOD), certificate=certificate)
    (refused,) = ask(server)
    assert isinstance(refused, ReplyError)
    assert "CERTIFICATE_VERIFY_FAILED" in refused.message
    assert f"the certificate of {server.model[15:-8]}; ca_file=FILE" in refused.message
    assert "tries" not in refused.message  # it would be no other at the next
    assert server.bodies == []


def test_an_authority_is_named_by_an_option(serve: Any, certificate: Path) -> None:
    server = serve(lambda body, tries: completion(GOOD), certificate=certificate)
    assert [type(each) for each in ask(server, 2, ca_file=str(certificate))] == [Answer] * 2


def test_an_authority_is_named_by_the_environment_and_the_option_wins(
    serve: Any, certificate: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = serve(lambda body, tries: completion(GOOD), certificate=certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert [type(each) for each in ask(server)] == [Answer]
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    assert [type(each) for each in ask(server, ca_file=str(certificate))] == [Answer]


def test_what_an_authority_vouches_for_is_one_name(serve: Any, certificate: Path) -> None:
    """Trust in who signed is no trust in whoever answers."""
    server = serve(lambda body, tries: completion(GOOD), certificate=certificate)
    (refused,) = ask(server, model=server.model.replace("127.0.0.1", "localhost"), ca_file=str(certificate))
    assert "ostname mismatch" in refused.message


def test_a_proxy_on_the_way_is_vouched_for_too(serve: Any, certificate: Path) -> None:
    proxy = serve(lambda body, tries: completion(GOOD), certificate=certificate)
    address = f"https://127.0.0.1:{proxy.server_address[1]}"
    model = "openai:http://models.invalid/v1#tiny"
    assert [type(each) for each in ask(proxy, model=model, proxy=address, ca_file=str(certificate))] == [Answer]
    (refused,) = ask(proxy, model=model, proxy=address)
    assert isinstance(refused, ReplyError)
    assert proxy.paths == ["http://models.invalid/v1/chat/completions"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "is not a file"),
        ("", "holds no certificate in PEM form"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "holds no certificate in PEM form"),
        ("key", "holds no certificate in PEM form"),
        ("/dev/zero", "is not a file"),
    ],
)
@pytest.mark.parametrize("named_by", ["ca_file", "$SSL_CERT_FILE"])
def test_a_file_without_authorities_is_one_line_before_anything_is_asked(
    content: str | None, words: str, named_by: str, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(content) if content and content.startswith("/") else tmp_path / "ca.pem"
    if content == "key":
        content = certificate.with_name("key.pem").read_text()
    if content is not None and file.parent == tmp_path:
        file.write_text(content)
    options = {"no_cache": "true"}
    if named_by == "ca_file":
        options["ca_file"] = str(file)
    else:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(InputError) as caught:
        build_vlm("openai:https://127.0.0.1/v1#m", options, device="cpu")
    assert caught.value.message == f"{named_by}: {file} {words}"


def test_without_encryption_no_authority_is_read(
    serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    server = serve(lambda body, tries: completion(GOOD))
    assert [type(each) for each in ask(server)] == [Answer]
    assert "ca_file" not in caplog.text
    ask(server, ca_file=str(tmp_path / "gone.pem"))
    assert caplog.text.count("ca_file is not used") == 1
