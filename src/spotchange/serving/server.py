"""Runs the server: a port, a temporary folder, a model, and an end that finishes what was accepted."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from spotchange.errors import InputError, MissingExtraError
from spotchange.serving.settings import ServerSettings

if TYPE_CHECKING:
    from spotchange.answering import LoadOptions

TEMPORARY = "spotchange-serve-"
_NEEDED = ("fastapi", "uvicorn", "gradio", "multipart", "prometheus_client")
log = logging.getLogger("spotchange.serving")


def run_server(settings: ServerSettings, *, model: str, options: LoadOptions) -> None:
    """Serve until SIGINT or SIGTERM."""
    check_extra()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    listening = bind(settings.host, settings.port)
    signal.signal(signal.SIGTERM, _leave)
    try:
        with temporary_folder() as folder:
            _serve(settings, listening, folder, model=model, options=options)
    finally:
        listening.close()


def check_extra() -> None:
    """One clear line where the extra is not installed."""
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in _NEEDED):
        raise MissingExtraError("spotchange serve", extra="serve")


def bind(host: str, port: int) -> socket.socket:
    """Take the port before anything slow is done."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"cannot listen on {host}: {error.strerror or error}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        hint = f"choose another one with --port {port + 1}" if port < 65535 else None
        raise InputError(f"cannot listen on {host} port {port}: {error.strerror or error}", hint=hint) from error
    return listening


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """All the server may write goes here, and is gone when it ends; what a killed server left is removed first."""
    for old in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
        owner = old.name.removeprefix(TEMPORARY).partition(".")[0]
        if owner.isdigit() and not _lives(int(owner)):
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}{os.getpid()}.")).resolve()
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    # Both are folders whose files the page's framework hands out; the second lies beside the user's own by default.
    variables = {"GRADIO_TEMP_DIR": str(folder), "GRADIO_EXAMPLES_CACHE": str(folder / "examples")}
    os.environ.update(variables)
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        for name in variables:
            os.environ.pop(name, None)
        shutil.rmtree(folder, ignore_errors=True)


def _serve(
    settings: ServerSettings, listening: socket.socket, folder: Path, *, model: str, options: LoadOptions
) -> None:
    import uvicorn
    from PIL import Image

    from spotchange.answering import CaptionOptions, ImagePair, build_answerer
    from spotchange.answering.gate import GatedAnswerer
    from spotchange.serving.app import Service
    from spotchange.serving.connections import ImpatientProtocol

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            service.stop_page()  # open pages hold a stream; without its end nothing ends
            await super().shutdown(sockets)

    answerer = build_answerer(model, options)
    # A first look finds a model that cannot compute here, and makes the first request as quick as the others.
    gray, red = (Image.new("RGB", (64, 64), color) for color in ("gray", "red"))
    (first,) = answerer.answer([ImagePair.of(gray, red)], CaptionOptions())
    if isinstance(first, Exception):
        log.warning("the model did not answer a first question: %s", first)
    if isinstance(answerer, GatedAnswerer):
        answerer.load()
    service = Service(answerer, settings, page_files=folder)
    config = uvicorn.Config(
        service.app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=15,
        http=ImpatientProtocol,
        limit_concurrency=settings.max_connections,
        timeout_graceful_shutdown=int(settings.shutdown_seconds),
    )
    address = f"http://{_for_url(settings.host)}:{listening.getsockname()[1]}"
    log.info("%s answers at %s (API: %s/v1/caption)", answerer.card.name, address, address)
    if not settings.loopback and settings.api_key is None:
        log.warning("anybody who can reach %s may use this server; --api-key-file asks for a key", settings.host)
    try:
        Server(config).run(sockets=[listening])
    finally:
        service.close()


def _leave(number: int, frame: FrameType | None) -> None:
    """A polite end is a good one: the exit code is 0 and what stands in `finally` is done."""
    raise SystemExit(0)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _for_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
