"""Models behind an OpenAI-compatible server: bounded concurrency, retries, rate limit, answers read with care."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import ssl
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from spotchange.answering.vlm.address import ServerKey, read_address, read_authorities, read_proxy
from spotchange.answering.vlm.asking import Arrived, Question, RawReply
from spotchange.answering.vlm.exchange import Answered, Channel
from spotchange.answering.vlm.pace import Pace, backoff, seconds_asked_for
from spotchange.answering.vlm.sent_images import data_url
from spotchange.answering.vlm.settings import VlmSettings
from spotchange.errors import ReplyError, SpotchangeError

log = logging.getLogger(__name__)
AGAIN = {408, 409, 425, 429}  # and every 5xx
REFUSED = {400, 422}  # a field that the server does not know, among other things
TEXT_PARTS = ("text", "output_text")  # as chat completions and the newer responses call them
ELSEWHERE = "it leads elsewhere, which is not followed (is the address right, and https: where it must be?)"


class ServedModel:
    """`Asked`, over HTTP. Images go to the named host and to no other: redirects are not followed."""

    sees = True  # as far as anyone can say from here
    prompt_file: Path | None = None
    device = "remote"

    def __init__(self, base_url: str, model: str, settings: VlmSettings) -> None:
        self._address = read_address(base_url, key_variable=settings.key_variable)
        self.name = model
        self.host = self._address.host
        encoding = "" if settings.image_format == "png" else f"+{settings.image_format}"
        self.signature = f"{self._address.place}#{model}+max{settings.max_new_tokens}+t0{encoding}"
        self._settings = settings
        self._key = ServerKey(settings.key_variable)
        self._proxy = read_proxy(settings.proxy)
        self._trusted = self._authorities(settings.ca_file)
        self._pace = Pace(settings.requests_per_minute)
        # Until the server has shown that it takes no schemas, no temperature, or the limit by another name.
        self._schemas, self._temperature, self._limit = True, True, "max_tokens"
        through = f" through the proxy {self._proxy.url.host}" if self._proxy else ""
        log.warning("images and questions are sent to %s%s, and only there", self.host, through)
        if self._key:  # servers quote keys, and it would log all headers of their answers
            logging.getLogger("httpcore").setLevel(logging.INFO)
        if self._key and self._address.open_to_readers:
            log.warning("the key travels to %s without encryption: the address begins with http:", self.host)

    def _authorities(self, ca_file: Path | None) -> ssl.SSLContext | None:
        """Who vouches for the server, and for a proxy on the way; None where no certificate is ever looked at."""
        by_proxy = self._proxy is not None and self._proxy.url.scheme == "https"
        if not (self._address.encrypted or by_proxy):
            if ca_file is not None:  # no error: with --compare the same options are for two models
                log.warning("ca_file is not used: the address of %s begins with http:", self.host)
            return None
        trusted = read_authorities(ca_file)
        if self._proxy is not None and by_proxy:
            self._proxy.ssl_context = trusted
        return trusted

    def ask(self, questions: Sequence[Question], arrived: Arrived) -> None:
        """All questions, at most `concurrency` at a time."""
        _run(self._ask_all(questions, arrived))

    async def _ask_all(self, questions: Sequence[Question], arrived: Arrived) -> None:
        settings = self._settings
        free = asyncio.Semaphore(settings.concurrency)
        channel = Channel(
            concurrency=settings.concurrency, timeout=settings.timeout, proxy=self._proxy, trusted=self._trusted
        )
        async with channel:

            async def one(place: int, question: Question) -> None:
                async with free:
                    try:
                        reply: RawReply | SpotchangeError = await self._ask(channel, question)
                    except SpotchangeError as error:
                        reply = error
                arrived(place, reply)

            await asyncio.gather(*(one(place, question) for place, question in enumerate(questions)))

    async def _ask(self, channel: Channel, question: Question) -> RawReply:
        body = await asyncio.to_thread(self._body, question)
        problem, tries, wait = "no answer", 0, 0.0
        while tries <= self._settings.retries:
            await asyncio.sleep(wait)
            await self._pace.wait()
            wait = backoff(tries)
            try:
                answered = await channel.post(self._address.url, body, self._key.headers)
            except (httpx.HTTPError, TimeoutError) as error:
                reason = self._shown(str(error))
                if "CERTIFICATE_VERIFY_FAILED" in reason:  # nor will it be trusted at the next try
                    raise ReplyError(
                        f"{reason} (the certificate of {self.host}; ca_file=FILE names who vouches)"
                    ) from None
                problem = f"{type(error).__name__} while asking {self.host}" + (f": {reason}" if reason else "")
            else:
                if answered.status == 200:
                    self._learn(body, question)
                    return self._read(answered, question)
                told = ELSEWHERE if 300 <= answered.status < 400 else self._shown(answered.text)
                problem = f"{self.host} answered {answered.status}: {told}"
                if answered.status in REFUSED and _gave_way(body, answered.text):
                    wait = 0.0
                    continue  # the same question without what was refused is no further try
                if answered.status not in AGAIN and answered.status < 500:
                    raise ReplyError(problem)
                asked = seconds_asked_for(answered.retry_after)
                wait = wait if asked is None else asked
            tries += 1
        raise ReplyError(f"{problem} ({tries} {'try' if tries == 1 else 'tries'})")

    def _body(self, question: Question) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": self._messages(question),
            self._limit: 1 if question.yes_or_no else self._settings.max_new_tokens,
        }
        if self._temperature:
            body["temperature"] = 0
        if question.yes_or_no:
            body |= {"logprobs": True, "top_logprobs": 10}
        elif self._schemas and question.schema is not None:
            schema = {"name": "reply", "strict": True, "schema": question.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _learn(self, body: dict[str, Any], question: Question) -> None:
        """From a request that was answered: what was left out of it need not be tried again."""
        self._limit = "max_tokens" if "max_tokens" in body else "max_completion_tokens"
        if self._temperature and "temperature" not in body:
            self._temperature = False
            log.warning("%s chooses the temperature itself: asked again, it may reply otherwise", self.name)
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

    def _read(self, answered: Answered, question: Question) -> RawReply:
        """The reply in a completion; a body of another shape is an error like any other."""
        try:
            values = json.loads(answered.content)
            choice = values["choices"][0]
            message, why_ended = choice["message"], choice.get("finish_reason")
            text, refusal = _said(message)
            refused = why_ended == "content_filter" or bool(refusal)
            usage = values.get("usage") or {}
            return RawReply(
                text=self._key.hidden_in(text),
                prompt_tokens=max(0, int(usage.get("prompt_tokens") or 0)),
                reply_tokens=max(0, int(usage.get("completion_tokens") or 0)),
                cut_off=why_ended == "length" and not question.yes_or_no,
                refusal=self._shown(str(refusal or message.get("refusal") or why_ended)) if refused else "",
                yes_probability=_yes_probability(choice) if question.yes_or_no else None,
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError):
            raise ReplyError(f"the server's answer is no chat completion: {self._shown(answered.text)}") from None

    def _shown(self, text: str, most: int = 160) -> str:
        line = " ".join(self._key.hidden_in(text).split())
        return line if len(line) <= most else f"{line[:most]}..."


def _run(work: Coroutine[Any, Any, None]) -> None:
    """To its end, also where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(asyncio.run, work).result()


def _gave_way(body: dict[str, Any], complaint: str) -> bool:
    """Take out of a request what a server does not know; False where nothing is left to take out."""
    if "max_tokens" in body and "max_completion_tokens" in complaint:
        body["max_completion_tokens"] = body.pop("max_tokens")
        return True
    if "temperature" in complaint and body.pop("temperature", None) is not None:
        return True
    return body.pop("response_format", None) is not None  # the prompt asks for JSON all the same


def _said(message: dict[str, Any]) -> tuple[str, str]:
    """The text of a message, and why there is none; a `TypeError` where its content is neither a text nor parts.

    Parts of text count, one after the other: thoughts and whatever else servers put beside them are no reply. A refusal
    among them makes what stands before it none either.
    """
    content, refusal = message["content"], ""
    if isinstance(content, list):
        refusal = " ".join([part["refusal"] for part in content if part["type"] == "refusal"])
        content = "".join([part["text"] for part in content if part["type"] in TEXT_PARTS])
    text = "" if content is None else content  # a model that has only thought so far
    if not isinstance(text, str):
        raise TypeError
    return text, refusal or ("" if text else str(message.get("refusal") or ""))


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
