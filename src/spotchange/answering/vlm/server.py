"""Models behind an OpenAI-compatible server: bounded concurrency, retries, rate limit, a key that is never shown."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from spotchange.answering.vlm.asking import Question, RawReply, data_url
from spotchange.answering.vlm.settings import VlmSettings
from spotchange.errors import InputError, ReplyError

log = logging.getLogger(__name__)
LONGEST_WAIT = 60.0  # seconds between two tries, whatever a server asks for
AGAIN = {408, 409, 425, 429}  # and every 5xx


class ServedModel:
    """`Asked`, over HTTP. Images go to the named host and to no other: redirects are not followed."""

    def __init__(self, base_url: str, model: str, settings: VlmSettings) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{base_url!r} is no server address", hint="openai:http://localhost:8000/v1#MODEL")
        if parts.username or parts.password:
            raise InputError("a key does not belong in the address", hint=f"put it into ${settings.key_variable}")
        self.name = model
        self.host = parts.netloc
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._settings = settings
        self._structured = True  # until the server says it knows no schemas
        log.warning("images are sent to %s, and only there", self.host)

    @property
    def signature(self) -> str:
        return f"{self.host}#{self.name}+max{self._settings.max_new_tokens}+t0"

    def ask(self, questions: Sequence[Question]) -> list[RawReply | Exception]:
        """All questions, at most `concurrency` at a time; outcomes in their order."""
        return asyncio.run(self._ask_all(questions))

    async def _ask_all(self, questions: Sequence[Question]) -> list[RawReply | Exception]:
        settings = self._settings
        key = os.environ.get(settings.key_variable, "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=settings.concurrency)
        pace = _Pace(settings.requests_per_minute)
        free = asyncio.Semaphore(settings.concurrency)
        async with httpx.AsyncClient(headers=headers, timeout=settings.timeout, limits=limits) as client:

            async def one(question: Question) -> RawReply | Exception:
                async with free:
                    try:
                        return await self._ask(client, pace, question)
                    except ReplyError as error:
                        return error

            return list(await asyncio.gather(*(one(question) for question in questions)))

    async def _ask(self, client: httpx.AsyncClient, pace: _Pace, question: Question) -> RawReply:
        body = await asyncio.to_thread(self._body, question)
        problem = "no answer"
        for attempt in range(self._settings.retries + 1):
            await pace.wait()
            wait: float | None = None
            try:
                response = await client.post(self._url, json=body)
            except httpx.HTTPError as error:
                problem = f"{type(error).__name__} while asking {self.host}"
            else:
                if response.status_code == 200:
                    return _read(response, question)
                if response.status_code in (400, 422) and "response_format" in body and self._structured:
                    self._structured = False  # this server takes no schema; the prompt asks for JSON all the same
                    del body["response_format"]
                    continue
                problem = f"{self.host} answered {response.status_code}: {_one_line(response.text)}"
                if response.status_code not in AGAIN and response.status_code < 500:
                    raise ReplyError(problem)
                wait = _retry_after(response)
            if attempt < self._settings.retries:
                await asyncio.sleep(_backoff(attempt) if wait is None else min(wait, LONGEST_WAIT))
        raise ReplyError(f"{problem} ({self._settings.retries + 1} tries)")

    def _body(self, question: Question) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": self._messages(question),
            "temperature": 0,
            "max_tokens": 1 if question.yes_or_no else self._settings.max_new_tokens,
        }
        if question.yes_or_no:
            body |= {"logprobs": True, "top_logprobs": 10}
        elif self._structured:
            schema = {"name": "reply", "strict": True, "schema": question.prompt.schema_}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _messages(self, question: Question) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": question.prompt.system}]
        replies = [example.reply for example in question.examples]
        for place, pair in enumerate(question.pairs):
            images = [
                {"type": "image_url", "image_url": {"url": data_url(image, self._settings.image_format)}}
                for image in (pair.before, pair.after)
            ]
            messages.append({"role": "user", "content": [*images, {"type": "text", "text": question.text}]})
            if place < len(replies):
                messages.append({"role": "assistant", "content": replies[place]})
        return messages


class _Pace:
    """Starts at most so many requests a minute, evenly."""

    def __init__(self, per_minute: float | None) -> None:
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0

    async def wait(self) -> None:
        now = time.monotonic()
        start = max(now, self._next)
        self._next = start + self._gap
        if start > now:
            await asyncio.sleep(start - now)


def _read(response: httpx.Response, question: Question) -> RawReply:
    """The reply in a completion; a body of another shape is an error like any other."""
    try:
        values = response.json()
        choice = values["choices"][0]
        text = choice["message"]["content"]
        usage = values.get("usage") or {}
        counted = {
            "prompt_tokens": int(usage.get("prompt_tokens") or 0),
            "reply_tokens": int(usage.get("completion_tokens") or 0),
        }
        if not isinstance(text, str):
            raise TypeError
        if choice.get("finish_reason") == "length" and not question.yes_or_no:
            raise ReplyError("the model's reply was cut off: max_new_tokens is too small")
        yes = _yes_probability(choice) if question.yes_or_no else None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise ReplyError(f"the server's answer is no chat completion: {_one_line(response.text)}") from None
    return RawReply(text=text, yes_probability=yes, **counted)


def _yes_probability(choice: dict[str, Any]) -> float | None:
    """P(yes) against P(no) at the first token; None where the server gives no probabilities."""
    tokens = ((choice.get("logprobs") or {}).get("content") or [{}])[0].get("top_logprobs") or []
    mass = {"yes": 0.0, "no": 0.0}
    for token in tokens:
        word = str(token["token"]).strip().lower()
        if word in mass:
            mass[word] += math.exp(float(token["logprob"]))
    total = sum(mass.values())
    return mass["yes"] / total if total > 0 else None


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds a server asks to wait, given as a number or as a date."""
    text = response.headers.get("retry-after", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _backoff(attempt: int) -> float:
    return float(min(LONGEST_WAIT, 0.5 * 2**attempt) * random.uniform(0.5, 1.0))


def _one_line(text: str, most: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}..."
