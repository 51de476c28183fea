"""One request over HTTP and what came back, read only as far as answers of a chat go, whatever a server sends."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from spotchange.errors import ReplyError

LONGEST_BODY = 4 * 2**20  # bytes of an answer, unpacked; a sentence with its probabilities takes some thousands
# Unpacked here and not by httpx, which unpacks whatever it is sent to any length, once for each layer that is named.
UNPACKED_HERE = {"Accept-Encoding": "gzip"}
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What a server sent."""

    status: int
    content: bytes
    retry_after: str

    @property
    def text(self) -> str:
        """As UTF-8, which JSON is: a charset that a server names may be any codec of Python."""
        return self.content.decode("utf-8", errors="replace")


async def post(client: httpx.AsyncClient, url: str, body: Mapping[str, Any]) -> Answered:
    """Send `body` as JSON.

    Raises:
        ReplyError: the answer is longer than answers are; asking again would not help.
        httpx.HTTPError: none came that can be read; asking again might help.
    """
    content = bytearray()
    async with client.stream("POST", url, json=body, headers=UNPACKED_HERE) as response:
        async for piece in response.aiter_raw():
            content += piece
            if len(content) > LONGEST_BODY:
                raise _too_long()
        packing = response.headers.get("content-encoding", "").strip().lower()
        retry_after = response.headers.get("retry-after", "")
    return Answered(status=response.status_code, content=_unpacked(bytes(content), packing), retry_after=retry_after)


def _unpacked(content: bytes, packing: str) -> bytes:
    if packing in ("", "identity") or not content:
        return content
    if packing not in ("gzip", "x-gzip"):
        raise httpx.DecodingError(f"packed as {packing[:40]!r}, which nobody asked for")
    unpacker = zlib.decompressobj(_GZIP)
    try:
        plain = unpacker.decompress(content, LONGEST_BODY + 1)
    except zlib.error as error:
        raise httpx.DecodingError(str(error)) from error
    if len(plain) > LONGEST_BODY:
        raise _too_long()
    if not unpacker.eof:
        raise httpx.RemoteProtocolError("the packed answer was cut off")
    return plain


def _too_long() -> ReplyError:
    return ReplyError(f"the server answered with more than {LONGEST_BODY:,} bytes")
