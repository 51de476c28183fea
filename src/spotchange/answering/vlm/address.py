"""Where a server is, who vouches for it, and the key it wants: checked before anything is sent; no key is shown."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from spotchange.errors import InputError

ENDPOINT = "/chat/completions"
CA_VARIABLE = "SSL_CERT_FILE"  # OpenSSL's own name, which companies set for every program
SHORTEST_SECRET = 8  # "none", "EMPTY", "ollama": what people give servers that want no key may stand in any sentence
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where questions are sent."""

    url: str
    host: str
    """With its port; all of the address that is shown."""
    place: str
    """For signatures: a host may serve others of a model's name under other paths, which may hold keys."""
    encrypted: bool
    open_to_readers: bool
    """What is sent there can be read on the way."""


def read_address(base_url: str, *, key_variable: str) -> Address:
    """From what a user wrote: a server's base URL, or the whole address of its chat completions."""
    base = base_url.rstrip("/").removesuffix(ENDPOINT).rstrip("/")
    try:
        parts = urlsplit(base)
        host = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
        httpx.URL(base)  # it refuses more than the standard library: names of hosts, for one
    except (ValueError, httpx.InvalidURL):
        parts, host = None, None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise InputError(
            f"{shown_address(base_url)!r} is no server address", hint="openai:http://localhost:8000/v1#MODEL"
        )
    if parts.username or parts.password:
        raise InputError("a key does not belong in the address", hint=f"put it into ${key_variable}")
    known = parts.path in ("", "/v1")
    return Address(
        url=base + ENDPOINT,
        host=str(host),
        place=str(host) if known else f"{host}@{hashlib.sha256(parts.path.encode()).hexdigest()[:8]}",
        encrypted=parts.scheme == "https",
        open_to_readers=parts.scheme == "http" and parts.hostname not in _LOOPBACK,
    )


def shown_address(base_url: str) -> str:
    """An address as it may be printed: without what stands before an @, which may be a key."""
    return base_url if "@" not in base_url else f"...@{base_url.rpartition('@')[2]}"


def read_proxy(address: str | None) -> httpx.Proxy | None:
    """The proxy that a user named."""
    if address is None:
        return None
    try:
        proxy = httpx.Proxy(address)
    except (ValueError, httpx.InvalidURL):
        proxy = None
    if proxy is None or not proxy.url.host:
        raise InputError(f"proxy: {shown_address(address)!r} is no address", hint="proxy=http://HOST:PORT")
    if proxy.url.scheme.startswith("socks") and find_spec("socksio") is None:
        raise InputError("proxy: SOCKS needs one more package", hint="pip install 'httpx[socks]'")
    return proxy


def read_authorities(ca_file: Path | None) -> ssl.SSLContext:
    """Trust in the certificate authorities of one file, which the user or the environment names; else in public ones.

    As everywhere, a file that is named replaces the public ones: an authority of a company vouches for its own servers.
    """
    named = os.environ.get(CA_VARIABLE) if ca_file is None else ca_file
    if not named:
        return httpx.create_ssl_context(trust_env=False)
    said_by = f"${CA_VARIABLE}" if ca_file is None else "ca_file"
    try:
        if not Path(named).is_file():  # whoever reads a device reads for ever
            raise InputError(f"{said_by}: {named} is not a file", hint="the certificate of your authority, in PEM form")
        context = ssl.create_default_context(cafile=named)
        if context.cert_store_stats()["x509"]:
            return context
    except ssl.SSLError:
        pass
    except OSError as error:
        raise InputError(f"{said_by}: cannot read {named}: {error.strerror or error}") from error
    raise InputError(f"{said_by}: {named} holds no certificate in PEM form")


class ServerKey:
    """A key from an environment variable; empty where there is none."""

    def __init__(self, variable: str) -> None:
        self._key = os.environ.get(variable, "").strip()
        if not all(33 <= ord(letter) < 127 for letter in self._key):
            raise InputError(f"the key in ${variable} has characters that no key has")
        # As it is, and as JSON and addresses may write its letters.
        letters = (rf"(?:\\?{re.escape(x)}|(?i:\\u00{ord(x):02x}|%{ord(x):02x}))" for x in self._key)
        self._written = re.compile("".join(letters)) if len(self._key) >= SHORTEST_SECRET else None

    def __bool__(self) -> bool:
        return bool(self._key)

    @property
    def headers(self) -> dict[str, str]:
        """What a request carries."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def hidden_in(self, text: str) -> str:
        """A text without the key: servers like to quote one that they do not accept."""
        return self._written.sub("[key]", text) if self._written is not None else text
