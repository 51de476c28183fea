"""One request over HTTP and what came back, read only as far as answers of a chat go, whatever a server sends."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from spotchange import __version__
from spotchange.errors import ReplyError

LONGEST_BODY = 4 * 2**20  # bytes of an answer, unpacked; a sentence with its probabilities takes some thousands
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": f"spotchange/{__version__}"}
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


class Channel:
    """The way to a server: httpx's transport alone.

    Its client would keep cookies, make sense of redirects, and unpack whatever comes to any length, once for each
    layer that is named.
    """

    def __init__(
        self, *, concurrency: int, timeout: float, proxy: httpx.Proxy | None, trusted: ssl.SSLContext | None
    ) -> None:
        self._transport = httpx.AsyncHTTPTransport(
            verify=trusted or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # which trusts nobody
            # A connection for each answer: what a server sends beyond one must not pass for the answer to the next.
            limits=httpx.Limits(max_connections=concurrency, max_keepalive_connections=0),
            proxy=proxy,
            trust_env=False,  # neither proxies nor keys that the user did not name here
        )
        self._timeout = timeout

    async def __aenter__(self) -> Channel:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._transport.__aexit__(*error)

    async def post(self, url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Answered:
        """Send `body` as JSON.

        Raises:
            ReplyError: the answer is longer than answers are; asking again would not help.
            httpx.HTTPError, TimeoutError: none came that can be read; asking again might help.
        """
        waits = {"timeout": httpx.Timeout(self._timeout).as_dict()}
        request = httpx.Request("POST", url, json=body, headers={**_HEADERS, **headers}, extensions=waits)
        content = bytearray()
        async with asyncio.timeout(self._timeout):  # of the whole answer, however slowly it drips
            response = await self._transport.handle_async_request(request)
            try:
                async for piece in response.aiter_raw():
                    content += piece
                    if len(content) > LONGEST_BODY:
                        raise _too_long()
            finally:
                await response.aclose()
        plain = _unpacked(bytes(content), response.headers.get("content-encoding", "").strip().lower())
        return Answered(status=response.status_code, content=plain, retry_after=response.headers.get("retry-after", ""))


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
