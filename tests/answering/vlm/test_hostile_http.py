"""What servers may send below the level of chats: packings, charsets, answers nobody asked for, refusals."""

from __future__ import annotations

import gzip
import json
import socketserver
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asked import GOOD, ask, pairs

from scripted_server import completion
from spotchange.answering.interface import Answer, CaptionOptions
from spotchange.answering.vlm.build import build_vlm
from spotchange.errors import ReplyError


@pytest.mark.parametrize("packing", ["gzip, gzip", "br", "zstd", "deflate", "gzip"])
def test_an_answer_that_unpacks_to_a_flood_is_never_unpacked(serve: Any, packing: str) -> None:
    """Each layer makes a thousand bytes of one; what reads answers unpacks one layer, as far as answers go."""
    flood = gzip.compress(gzip.compress(bytes(30_000_000)) if "," in packing else bytes(30_000_000))
    server = serve(lambda body, tries: (200, flood, {"content-encoding": packing}))
    tracemalloc.start()
    (outcome,) = ask(server, retries="0")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(outcome, ReplyError)
    assert ("nobody asked for" if packing != "gzip" else "more than") in outcome.message
    assert most < 15_000_000


def test_a_packed_answer_is_read_and_one_cut_off_is_asked_for_again(serve: Any) -> None:
    packed = gzip.compress(json.dumps(completion(GOOD)).encode())
    server = serve(lambda body, tries: (200, packed[:-9] if tries == 1 else packed, {"content-encoding": "gzip"}))
    assert [type(each) for each in ask(server)] == [Answer]
    assert len(server.bodies) == 2


@pytest.mark.parametrize("charset", ["undefined", "idna", "rot13", "zlib", "no such"])
def test_a_charset_is_no_reason_to_end_a_run(serve: Any, charset: str) -> None:
    server = serve(lambda body, tries: (404, b"\xffnothing", {"content-type": f"text/plain; charset={charset}"}))
    assert [each.message.rpartition(" ")[2] for each in ask(server, 2)] == ["\ufffdnothing"] * 2


def test_a_refusal_is_said_and_what_it_took_is_counted(serve: Any) -> None:
    refused = completion("")
    refused["choices"][0]["message"] |= {"content": None, "refusal": "I do not look at mugs."}
    withheld = completion(GOOD, finish_reason="content_filter")
    answerer = build_vlm(
        serve(lambda body, tries: refused if len(body["messages"]) == 2 else withheld).model,
        {"no_cache": True},
        device="cpu",
    )
    (outcome,) = answerer.answer(pairs(1), CaptionOptions())
    assert outcome.message == "the model would not reply: I do not look at mugs."
    assert (answerer.usage.unusable, answerer.usage.prompt_tokens) == (1, 700)
    (outcome,) = ask(serve(lambda body, tries: withheld))
    assert outcome.message == "the model would not reply: content_filter"


@pytest.fixture
def two_for_one() -> Iterator[str]:
    """A server that keeps connections open and follows every answer with another that nobody asked for."""

    class TwoForOne(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline():
                headers = iter(self.rfile.readline, b"\r\n")
                length = next(int(line[15:]) for line in headers if line.lower().startswith(b"content-length:"))
                for _ in iter(self.rfile.readline, b"\r\n"):
                    pass
                self.rfile.read(length)
                texts = ("the answer to this pair", "the answer to another pair")
                bodies = [json.dumps(completion(text)).encode() for text in texts]
                answers = [b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(each), each) for each in bodies]
                self.wfile.write(b"".join(answers))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), TwoForOne) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"openai:http://127.0.0.1:{server.server_address[1]}/v1#m"
        server.shutdown()


def test_what_comes_after_an_answer_is_not_the_answer_to_the_next_pair(two_for_one: str) -> None:
    options = {"no_cache": True, "prompt": "plain", "concurrency": 1, "retries": 0}
    answers = build_vlm(two_for_one, options, device="cpu").answer(pairs(3), CaptionOptions())
    assert [answer.result.caption for answer in answers] == ["the answer to this pair"] * 3  # type: ignore[union-attr]


def test_replies_are_kept_as_they_come(serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed among many questions has paid for those that were answered."""
    server = serve(lambda body, tries: completion(GOOD))
    options = {"cache": str(tmp_path / "replies.sqlite"), "concurrency": 1}
    with monkeypatch.context() as patched:
        patched.setattr("spotchange.answering.vlm.server.data_url", fails_after(4))
        with pytest.raises(RuntimeError):
            build_vlm(server.model, options, device="cpu").answer(pairs(5), CaptionOptions())
    assert len(server.bodies) == 2
    answerer = build_vlm(server.model, options, device="cpu")
    assert [type(each) for each in answerer.answer(pairs(5), CaptionOptions())] == [Answer] * 5
    assert (answerer.usage.asked, answerer.usage.cached) == (3, 2)


def fails_after(images: int) -> Any:
    left = iter(range(images))

    def data_url(*_: Any) -> str:
        if next(left, None) is None:
            raise RuntimeError
        return "data:image/png;base64,AAAA"

    return data_url
