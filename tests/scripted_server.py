"""An OpenAI-compatible server on loopback that answers by a script and remembers what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Script = Callable[[dict[str, Any], int], Any]  # (request body, how often it was asked) -> reply


def completion(text: Any, **choice: Any) -> dict[str, Any]:
    return {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 700, "completion_tokens": 12},
    }


class Server(ThreadingHTTPServer):
    """Counts requests by the images they carry and answers by a script: (request body, tries so far) -> reply."""

    daemon_threads = True

    def __init__(self, script: Script, *, certificate: Path | None = None) -> None:
        """With a certificate (and its key, in one file) it speaks https."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script
        self.scheme = "http"
        if certificate is not None:
            self.scheme = "https"
            shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            shown.load_cert_chain(certificate)
            self.socket = shown.wrap_socket(self.socket, server_side=True)
        self.tries: Counter[str] = Counter()
        self.most_at_once = 0
        self._at_once = 0
        self.lock = threading.Lock()
        self.headers_seen: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []

    @property
    def model(self) -> str:
        return f"openai:{self.scheme}://127.0.0.1:{self.server_address[1]}/v1#tiny"

    def enter(self, step: int) -> None:
        with self.lock:
            self._at_once += step
            self.most_at_once = max(self.most_at_once, self._at_once)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.enter(1)
        try:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            key = json.dumps(body["messages"][-1])
            with self.server.lock:
                self.server.tries[key] += 1
                tries = self.server.tries[key]
                self.server.headers_seen.append({name.lower(): value for name, value in self.headers.items()})
                self.server.bodies.append(body)
                self.server.paths.append(self.path)
            self._reply(self.server.script(body, tries))
        finally:
            self.server.enter(-1)

    def _reply(self, reply: Any) -> None:
        if reply is None:  # cut the connection
            self.connection.close()
            return
        status, content, headers = reply if isinstance(reply, tuple) else (200, reply, {})
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        data = text if isinstance(text, bytes) else text.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        pause = float(headers.get("x-drip", 0))
        try:
            for start in range(0, len(data), 4 if pause else len(data) or 1):
                self.wfile.write(data[start : start + (4 if pause else len(data))])
                time.sleep(pause)
        except OSError:  # nobody listens any more
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""
