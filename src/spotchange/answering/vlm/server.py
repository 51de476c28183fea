"""Models behind an OpenAI-compatible server: bounded concurrency, retries, rate limit, a key that is never shown."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
import random
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from spotchange.answering.vlm.asking import Question, RawReply, data_url
from spotchange.answering.vlm.settings import VlmSettings
from spotchange.errors import InputError, ReplyError, SpotchangeError

log = logging.getLogger(__name__)
LONGEST_WAIT = 60.0  # seconds between two tries, whatever a server asks for
LONGEST_BODY = 4 * 2**20  # bytes of an answer, unpacked; a sentence with its probabilities takes some thousands
AGAIN = {408, 409, 425, 429}  # and every 5xx
REFUSED = {400, 422}  # a field that the server does not know, among other things
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ServedModel:
    """`Asked`, over HTTP. Images go to the named host and to no other: redirects are not followed."""

    sees = True  # as far as anyone can say from here
    prompt_file: Path | None = None

    def __init__(self, base_url: str, model: str, settings: VlmSettings) -> None:
        host, parts = _host(base_url, settings)
        self.name = model
        self.host = host
        self.signature = f"{_place(host, parts.path)}#{model}+max{settings.max_new_tokens}+t0"
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._settings = settings
        self._key = _key(settings.key_variable)
        self._proxy = _proxy(settings.proxy)
        self._pace = _Pace(settings.requests_per_minute)
        # Until the server has shown that it takes no schemas, or the limit by another name.
        self._schemas, self._limit = True, "max_tokens"
        through = f" through the proxy {self._proxy.url.host}" if self._proxy else ""
        log.warning("images and questions are sent to %s%s, and only there", host, through)
        if self._key and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            log.warning("the key travels to %s without encryption: the address begins with http:", host)

    def ask(self, questions: Sequence[Question]) -> list[RawReply | SpotchangeError]:
        """All questions, at most `concurrency` at a time; outcomes in their order."""
        return _run(self._ask_all(questions))

    async def _ask_all(self, questions: Sequence[Question]) -> list[RawReply | SpotchangeError]:
        settings = self._settings
        free = asyncio.Semaphore(settings.concurrency)
        async with httpx.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=settings.timeout,
            limits=httpx.Limits(max_connections=settings.concurrency),
            proxy=self._proxy,
            trust_env=False,  # neither proxies nor keys that the user did not name here
        ) as client:

            async def one(question: Question) -> RawReply | SpotchangeError:
                async with free:
                    try:
                        return await self._ask(client, question)
                    except SpotchangeError as error:
                        return error

            return list(await asyncio.gather(*(one(question) for question in questions)))

    async def _ask(self, client: httpx.AsyncClient, question: Question) -> RawReply:
        body = await asyncio.to_thread(self._body, question)
        problem, tries, wait = "no answer", 0, 0.0
        while tries <= self._settings.retries:
            await asyncio.sleep(wait)
            await self._pace.wait()
            wait = _backoff(tries)
            try:
                async with asyncio.timeout(self._settings.timeout):  # of the whole answer, however slowly it drips
                    response = await self._post(client, body)
            except (httpx.HTTPError, TimeoutError) as error:
                problem = f"{type(error).__name__} while asking {self.host}"
            else:
                if response.status_code == 200:
                    self._learn(body, question)
                    return self._read(response, question)
                problem = f"{self.host} answered {response.status_code}: {self._shown(response.text)}"
                if response.status_code in REFUSED and _gave_way(body, response.text):
                    wait = 0.0
                    continue  # the same question without what was refused is no further try
                if response.status_code not in AGAIN and response.status_code < 500:
                    raise ReplyError(problem)
                asked = _retry_after(response)
                wait = wait if asked is None else min(asked, LONGEST_WAIT)
            tries += 1
        raise ReplyError(f"{problem} ({tries} tries)")

    async def _post(self, client: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
        """The answer, read only as far as answers go."""
        content = bytearray()
        async with client.stream("POST", self._url, json=body) as response:
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > LONGEST_BODY:
                    raise ReplyError(f"{self.host} answered with more than {LONGEST_BODY:,} bytes")
        # Not as it came: what was unpacked must not be unpacked again.
        kept = {name: response.headers[name] for name in ("retry-after", "content-type") if name in response.headers}
        return httpx.Response(response.status_code, headers=kept, content=bytes(content))

    def _body(self, question: Question) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": self._messages(question),
            "temperature": 0,
            self._limit: 1 if question.yes_or_no else self._settings.max_new_tokens,
        }
        if question.yes_or_no:
            body |= {"logprobs": True, "top_logprobs": 10}
        elif self._schemas and question.schema is not None:
            schema = {"name": "reply", "strict": True, "schema": question.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _learn(self, body: dict[str, Any], question: Question) -> None:
        """From a request that was answered: what was left out of it need not be tried again."""
        self._limit = "max_tokens" if "max_tokens" in body else "max_completion_tokens"
        if question.schema is not None and not question.yes_or_no and "response_format" not in body:
            self._schemas = False

    def _messages(self, question: Question) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": question.system}] if question.system else []
        for turn in question.turns:
            images = [
                {"type": "image_url", "image_url": {"url": data_url(image, self._settings.image_format)}}
                for image in turn.images
            ]
            texts = [{"type": "text", "text": turn.text}] if turn.text else []
            messages.append({"role": "user", "content": [*images, *texts]})
            if turn.reply is not None:
                messages.append({"role": "assistant", "content": turn.reply})
        return messages

    def _read(self, response: httpx.Response, question: Question) -> RawReply:
        """The reply in a completion; a body of another shape is an error like any other."""
        try:
            values = response.json()
            choice = values["choices"][0]
            text = choice["message"]["content"]
            usage = values.get("usage") or {}
            if not isinstance(text, str):
                raise TypeError
            return RawReply(
                text=self._without_key(text),
                prompt_tokens=int(usage.get("prompt_tokens") or 0),
                reply_tokens=int(usage.get("completion_tokens") or 0),
                cut_off=choice.get("finish_reason") == "length" and not question.yes_or_no,
                yes_probability=_yes_probability(choice) if question.yes_or_no else None,
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError):
            raise ReplyError(f"the server's answer is no chat completion: {self._shown(response.text)}") from None

    def _shown(self, text: str, most: int = 160) -> str:
        line = " ".join(self._without_key(text).split())
        return line if len(line) <= most else f"{line[:most]}..."

    def _without_key(self, text: str) -> str:
        """Servers like to quote a key that they do not accept."""
        return text.replace(self._key, "[key]") if self._key else text


class _Pace:
    """Starts at most so many requests a minute, evenly, over all that a model is asked."""

    def __init__(self, per_minute: float | None) -> None:
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    async def wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + self._gap
        if start > now:
            await asyncio.sleep(start - now)


def _run(work: Coroutine[Any, Any, list[RawReply | SpotchangeError]]) -> list[RawReply | SpotchangeError]:
    """To its end, also where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()


def _host(base_url: str, settings: VlmSettings) -> tuple[str, Any]:
    try:
        parts = urlsplit(base_url)
        host = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
    except ValueError:
        parts, host = None, None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise InputError(
            f"{shown_address(base_url)!r} is no server address", hint="openai:http://localhost:8000/v1#MODEL"
        )
    if parts.username or parts.password:
        raise InputError("a key does not belong in the address", hint=f"put it into ${settings.key_variable}")
    return str(host), parts


def _place(host: str, path: str) -> str:
    """Where a model is, for signatures: a host may serve others of its name under other paths, which may hold keys."""
    path = path.rstrip("/")
    return host if path in ("", "/v1") else f"{host}@{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def _proxy(address: str | None) -> httpx.Proxy | None:
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


def shown_address(base_url: str) -> str:
    """An address as it may be printed: without what stands before an @, which may be a key."""
    return base_url if "@" not in base_url else f"...@{base_url.rpartition('@')[2]}"


def _key(variable: str) -> str:
    key = os.environ.get(variable, "").strip()
    if not all(33 <= ord(letter) < 127 for letter in key):
        raise InputError(f"the key in ${variable} has characters that no key has")
    return key


def _gave_way(body: dict[str, Any], complaint: str) -> bool:
    """Take out of a request what a server does not know; False where nothing is left to take out."""
    if "max_tokens" in body and "max_completion_tokens" in complaint:
        body["max_completion_tokens"] = body.pop("max_tokens")
        return True
    return body.pop("response_format", None) is not None  # the prompt asks for JSON all the same


def _yes_probability(choice: dict[str, Any]) -> float | None:
    """P(yes) against P(no) at the first token; None where the server gives no probabilities."""
    tokens = ((choice.get("logprobs") or {}).get("content") or [{}])[0].get("top_logprobs") or []
    mass = {"yes": 0.0, "no": 0.0}
    for token in tokens:
        word = str(token["token"]).strip().lower()
        if word in mass:
            mass[word] += math.exp(float(token["logprob"]))
    total = sum(mass.values())
    return mass["yes"] / total if total > 0 and math.isfinite(total) else None


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds a server asks to wait, given as a number or as a date."""
    text = response.headers.get("retry-after", "")
    try:
        seconds = float(text)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _backoff(attempt: int) -> float:
    return float(min(LONGEST_WAIT, 0.5 * 2**attempt) * random.uniform(0.5, 1.0))
