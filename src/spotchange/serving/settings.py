"""What the server is told: where it listens, what it lets in, and who may ask."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from spotchange.errors import InputError
from spotchange.files import read_input

API_KEY_VARIABLE = "SPOTCHANGE_API_KEY"
SHORTEST_KEY = 8
LONGEST_KEY_FILE = 4096  # bytes
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Limits are enforced before anything is decoded."""

    host: str = "127.0.0.1"
    port: int = 8000
    batch_size: int = 16  # pairs computed together, at most
    window_seconds: float = 0.004  # how long the first pair of a batch waits for others
    places: int = 128  # pairs between arrival and answer, at most
    max_image_bytes: int = 20 * 2**20
    max_request_bytes: int = 128 * 2**20  # of a batch request
    max_pixels: int = 40_000_000
    max_decoded_pixels: int = 200_000_000  # of all images in memory, at 4 bytes; later ones wait
    max_held_bytes: int = 2**30  # of all requests to the API that are being answered; later ones are turned away
    max_call_bytes: int = 2 * 2**20  # of what a page sends besides its uploads: names of files, settings
    max_pairs: int = 32  # of a batch request
    max_page_pairs: int = 200  # of a zip file or two folders on the page
    body_seconds: float = 30.0  # to send a request's body
    slowest_bytes: int = 64 * 2**10  # a second, of an upload on the page, after that time
    max_connections: int = 256
    max_page_bytes: int = 2 * 2**30  # of all uploads and downloads of pages
    shutdown_seconds: float = 30.0  # to finish what was accepted
    api_key: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    page: bool = True

    def __post_init__(self) -> None:
        """Refuse settings that could never answer a full batch request."""
        if self.max_pairs > self.places:
            raise InputError(f"a batch of {self.max_pairs} pairs does not fit into {self.places} places")
        if 2 * self.max_pixels > self.max_decoded_pixels:
            raise InputError(f"two images of {self.max_pixels:,} pixels are more than may be held in memory")
        if self.max_request_bytes > self.max_held_bytes:
            raise InputError(f"a request of {self.max_request_bytes:,} bytes is more than may be held in memory")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def host_names(self) -> frozenset[str] | None:
        """Names the server answers to; None: any.

        On loopback a foreign name in the Host header means a web page elsewhere has pointed its own name here (DNS
        rebinding) to read answers with this user's rights.
        """
        if not self.loopback:
            return None
        return frozenset(name.lower() for name in (*LOOPBACK_NAMES, self.host, *self.allowed_hosts))


def read_api_key(path: Path | None) -> str | None:
    """The key from a file or the environment; None: anybody who can reach the server may use it."""
    if path is None:
        key, source = os.environ.get(API_KEY_VARIABLE), f"the environment variable {API_KEY_VARIABLE}"
        if key is None:
            return None
    else:
        try:
            key, source = read_input(path, most_bytes=LONGEST_KEY_FILE), f"--api-key-file {path}"
        except (OSError, ValueError) as error:
            raise InputError(
                f"cannot read --api-key-file {path}: {getattr(error, 'strerror', None) or error}"
            ) from error
    key = key.strip()
    if len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable():
        raise InputError(f"the API key in {source} must be at least {SHORTEST_KEY} printable ASCII characters")
    return key
