"""A hub on loopback: the endpoints that huggingface_hub asks for one user's models, kept in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_atestthatnobodymaysee"


class Hub(ThreadingHTTPServer):
    """Repositories as commits of files; who has the token may write, and read what is private."""

    daemon_threads = True

    def __init__(self, token: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.token = token
        self.repositories: dict[str, dict[str, Any]] = {}  # name: private, branches, commits
        self.uploaded: dict[str, bytes] = {}  # large files by their checksum
        self.requests: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Hub:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *reason: object) -> None:
        self.shutdown()
        self.server_close()

    def commit(self, name: str, branch: str, files: Mapping[str, bytes | None]) -> str:
        repository = self.repositories[name]
        changed = {**repository["commits"].get(repository["branches"].get(branch), {}), **files}
        everything = {path: content for path, content in changed.items() if content is not None}
        mark = json.dumps([len(repository["commits"]), *((k, _sha256(v)) for k, v in sorted(everything.items()))])
        number = hashlib.sha1(mark.encode()).hexdigest()
        repository["commits"][number] = everything
        repository["branches"][branch] = number
        return number


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"POST {path}")
        if path.endswith("/validate-yaml"):
            return self._json({"errors": [], "warnings": []})
        if not self._knows():
            return self._refuse(401, "Invalid username or password.")
        if path == "/api/repos/create":
            wanted = json.loads(body)
            name = "/".join(filter(None, (wanted.get("organization"), wanted["name"])))
            if name.startswith("theirs/"):
                return self._refuse(403, "You don't have the rights to create a model under this namespace")
            if name in self.server.repositories:
                url = f"{self.server.address}/{name}"
                return self._send(
                    409, json.dumps({"error": "You already created this model repo", "url": url}).encode()
                )
            private = bool(wanted.get("private")) or wanted.get("visibility") == "private"
            made = {"private": private, "branches": {}, "commits": {}}
            self.server.repositories[name] = made
            self.server.commit(name, "main", {})
            return self._json({"url": f"{self.server.address}/{name}", "name": name})
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/branch/(.+)", path):
            repository = self.server.repositories[found[1]]
            repository["branches"].setdefault(found[2], repository["branches"]["main"])
            return self._json({})
        if re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/(.+)", path):
            files = [
                {"path": each["path"], "uploadMode": "lfs" if each["size"] > 10_000 else "regular",
                 "shouldIgnore": False}
                for each in json.loads(body)["files"]
            ]  # fmt: skip
            return self._json({"files": files})
        if found := re.fullmatch(r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", path):
            objects = [
                {"oid": each["oid"], "size": each["size"],
                 "actions": {"upload": {"href": f"{self.server.address}/lfs/{each['oid']}", "header": {}}}}
                for each in json.loads(body)["objects"]
            ]  # fmt: skip
            return self._json({"transfer": "basic", "objects": objects})
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/(.+)", path):
            return self._take_commit(found[1], found[2], body)
        return self._refuse(404, "Not found")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        oid = self.path.rpartition("/")[2]
        if _sha256(body) != oid:
            return self._refuse(422, "checksum")
        self.server.uploaded[oid] = body
        return self._json({})

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree|branch)/([^/]+))?(?:/(.*))?", path):
            return self._describe(found[1], found[2] or "revision", found[3] or "main", found[4] or "")
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._file(found[1], found[2], found[3])
        return self._refuse(404, "Not found")

    do_HEAD = do_GET

    def _take_commit(self, name: str, branch: str, body: bytes) -> None:
        files: dict[str, bytes | None] = {}
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.uploaded[value["oid"]]
            elif line["key"] == "deletedFile":
                files[value["path"]] = None
        number = self.server.commit(name, branch, files)
        url = f"{self.server.address}/{name}/commit/{number}"
        self._json({"commitUrl": url, "commitOid": number, "success": True, "hookOutput": ""})

    def _describe(self, name: str, what: str, revision: str, below: str) -> None:
        commit = self._commit(name, revision)
        if commit is None:
            return
        number, files = commit
        if what == "tree":
            recursive = "recursive=true" in self.path.lower()
            inside = f"{below}/" if below else ""
            files = {path: content for path, content in files.items() if path.startswith(inside)}
            folders = {inside + path[len(inside) :].partition("/")[0] for path in files if "/" in path[len(inside) :]}
            if not recursive:
                files = {path: content for path, content in files.items() if "/" not in path[len(inside) :]}
            listed = [{"type": "directory", "path": path, "oid": "0" * 40, "size": 0} for path in sorted(folders)]
            if inside and not files and not folders:
                return self._refuse(404, "Entry not found", **{"X-Error-Code": "EntryNotFound"})
            self._json(listed + [{"type": "file", "path": path, "size": len(content), "oid": _sha256(content)[:40]}
                        | ({"lfs": {"oid": _sha256(content), "size": len(content), "pointerSize": 134}}
                           if len(content) > 10_000 else {})
                        for path, content in files.items()])  # fmt: skip
        else:
            siblings = [{"rfilename": path} for path in files]
            self._json({"id": name, "modelId": name, "sha": number, "siblings": siblings, "tags": [],
                        "private": self.server.repositories[name]["private"], "downloads": 0, "likes": 0})  # fmt: skip

    def _file(self, name: str, revision: str, path: str) -> None:
        commit = self._commit(name, revision)
        if commit is None:
            return
        number, files = commit
        if path not in files:
            self._refuse(404, "Entry not found", **{"X-Error-Code": "EntryNotFound", "X-Repo-Commit": number})
            return
        content = files[path]
        if part := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", "")):
            first, last = int(part[1]), min(int(part[2]), len(content) - 1)
            span = {"Content-Range": f"bytes {first}-{last}/{len(content)}", "ETag": f'"{_sha256(content)}"'}
            return self._send(206, content[first : last + 1], **span)
        return self._send(200, content, **{"ETag": f'"{_sha256(content)}"', "X-Repo-Commit": number})

    def _commit(self, name: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        repository = self.server.repositories.get(name)
        if repository is None or (repository["private"] and not self._knows()):
            self._refuse(401 if not self._knows() else 404, "Repository not found", **{"X-Error-Code": "RepoNotFound"})
            return None
        number = repository["branches"].get(revision, revision)
        if number not in repository["commits"]:
            self._refuse(404, "Revision not found", **{"X-Error-Code": "RevisionNotFound"})
            return None
        return number, repository["commits"][number]

    def _knows(self) -> bool:
        return self.headers.get("authorization") == f"Bearer {self.server.token}"

    def _refuse(self, status: int, why: str, **headers: str) -> None:
        self._send(status, json.dumps({"error": why}).encode(), **{"X-Error-Message": why, **headers})

    def _json(self, values: Any) -> None:
        self._send(200, json.dumps(values).encode(), **{"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
