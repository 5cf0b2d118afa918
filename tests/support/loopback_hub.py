"""A Hub on the loopback, for the real client: repositories, a store for large files on another port, uploads, faults.

It counts what it sends by kind, remembers which requests carried a token, and never waits: a slow answer is one that
does not come before the client's own time is over.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from huggingface_hub import constants

from spectool.hub import client, mirror

TOKEN = "hf_loopback0SECRET0token"
SIGNATURE = "Signature-0SECRET0-of-the-store"
LARGE = 64 * 1024
WHOLE_NUMBERS = {"I64", "I32", "BOOL", "U8"}


class Content:
    """Bytes of a file that need not exist: `head`, then zeros up to `size`."""

    def __init__(self, head: bytes, size: int | None = None) -> None:
        self.head = head
        self.size = len(head) if size is None else size

    def part(self, start: int, stop: int) -> bytes:
        data = self.head[start:stop]
        return data + bytes(max(0, min(stop, self.size) - start - len(data)))

    def parts(self, start: int, stop: int) -> Iterator[bytes]:
        """The same in pieces, for files larger than memory."""
        for at in range(start, stop, 2**20):
            yield self.part(at, min(stop, at + 2**20))

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.head).hexdigest()  # of a longer one it identifies, which is all that is needed

    @property
    def blob(self) -> str:
        return hashlib.sha1(b"blob %d\0" % self.size + self.head, usedforsecurity=False).hexdigest()


class SparseFile(Content):
    """A file on disk whose first megabyte is all that is not zero."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as stream:
            super().__init__(stream.read(2**20), path.stat().st_size)

    @cached_property
    def sha256(self) -> str:  # type: ignore[override]  # a property here, a field there
        digest, left = hashlib.sha256(self.head), self.size - len(self.head)
        while left > 0:
            digest.update(bytes(min(left, 2**20)))
            left -= 2**20
        return digest.hexdigest()


@dataclass
class Repo:
    """A repository: files by commit, and which commit is `main`."""

    commits: dict[str, dict[str, Content]] = field(default_factory=dict)
    main: str = ""
    access: str = "open"
    """open, gated, private, forbidden"""
    listing: dict[str, Any] = field(default_factory=dict)
    """What is laid over the answer about a commit."""


@dataclass
class Fault:
    """Something that goes wrong with the next `times` requests whose path and range match."""

    kind: str
    path: str
    times: int = 1_000_000
    span: str = ""
    """Only with a Range header that matches this; empty for any."""


class LoopbackHub:
    """The servers. Use it as a context."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.faults: list[Fault] = []
        self.sent: Counter[str] = Counter()
        self.requests: list[tuple[str, str, str, bool]] = []
        """server, method and path, range, whether it carried the token"""
        self.store: dict[str, Content] = {}
        self.created: list[dict[str, Any]] = []
        self.uploaded: dict[str, bytes] = {}
        self.deleted: list[str] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._servers = [_server(self, name) for name in ("hub", "store")]
        self.url, self.store_url = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def __enter__(self) -> LoopbackHub:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def add(self, repo: str, files: dict[str, Content | bytes], access: str = "open") -> str:
        """Commit files to a repository's main, and return the commit."""
        contents = {name: Content(item) if isinstance(item, bytes) else item for name, item in files.items()}
        found = self.repos.setdefault(repo, Repo())
        seed = json.dumps([repo, len(found.commits), {name: item.sha256 for name, item in contents.items()}])
        commit = hashlib.sha1(seed.encode(), usedforsecurity=False).hexdigest()
        found.commits[commit] = contents
        found.main, found.access = commit, access
        self.store |= {item.sha256: item for item in contents.values()}
        return commit

    def add_folder(self, repo: str, folder: Path, access: str = "open", **more: bytes) -> str:
        """Commit a folder."""
        files: dict[str, Content | bytes] = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        return self.add(repo, files | {".gitattributes": b"*.safetensors filter=lfs\n"} | dict(more), access)

    def fault(self, kind: str, path: str, times: int = 1_000_000, span: str = "") -> None:
        """Let something go wrong."""
        self.faults.append(Fault(kind, path, times, span))

    def take(self, path: str, span: str) -> str | None:
        """Return the fault that strikes a request, and count it."""
        with self._lock:
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.path, path) and re.search(fault.span, span):
                    fault.times -= 1
                    return fault.kind
        return None

    def count(self, kind: str, nbytes: int) -> None:
        """Count bytes before they are sent: whoever has them may look at once."""
        with self._lock:
            self.sent[kind] += nbytes


def _server(hub: LoopbackHub, name: str) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type(f"{name}Handler", (_Handler,), {"hub": hub, "name": name}))
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hung up is what tests want
    return server


class _Handler(BaseHTTPRequestHandler):
    hub: LoopbackHub
    name: str
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path, span = unquote(urlsplit(self.path).path), self.headers.get("range", "")
        self._note(path, span)
        fault = self.hub.take(f"/{self.name}{path}", span)
        if fault is not None and self._struck(fault):
            return
        if self.name == "store":
            if SIGNATURE not in self.path:
                self._error(403)
            else:
                self._file(self.hub.store[path.rpartition("/")[2]], "weights", fault)
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            self._listing(match[1], match[2], fault)
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(match[1], match[2], match[3], fault)
        else:
            self._error(404)

    def _note(self, path: str, span: str) -> None:
        if path == "/api/agent-harnesses":  # the client's own curiosity
            return
        self.hub.requests.append(
            (self.name, f"{self.command} {path}", span, TOKEN in self.headers.get("authorization", ""))
        )

    def _struck(self, fault: str) -> bool:
        if fault.isdigit():
            self._error(int(fault))
        elif fault == "slow":
            self.hub.closing.wait()
        elif fault == "html":
            self._send(200, b"<!DOCTYPE html><html>Log in to the hotel network</html>", "other")
        elif fault == "loop":
            self._send(302, b"", "other", Location=self.path)
        elif fault == "elsewhere":
            self._send(302, b"", "other", Location="gopher://example.org/")
        elif fault == "hang up":
            self.close_connection = True
        else:
            return False
        return True

    def _allowed(self, name: str) -> Repo | None:
        repo = self.hub.repos.get(name)
        known = TOKEN in self.headers.get("authorization", "")
        if repo is None or (repo.access == "private" and not known):
            self._error(404 if known else 401, "RepoNotFound")
        elif repo.access == "gated" and not known:
            self._error(401, "GatedRepo")
        elif repo.access == "forbidden":
            self._error(403)
        else:
            return repo
        return None

    def _listing(self, name: str, revision: str, fault: str | None) -> None:
        repo = self._allowed(name)
        if repo is None:
            return
        commit = repo.main if revision == "main" else revision
        if commit not in repo.commits:
            self._error(404, "RevisionNotFound")
            return
        siblings = []
        for file, content in repo.commits[commit].items():
            entry: dict[str, Any] = {"rfilename": file, "size": content.size, "blobId": content.blob}
            if content.size >= LARGE or file.endswith(".safetensors"):
                entry["lfs"] = {"sha256": content.sha256, "size": content.size, "pointerSize": 134}
            siblings.append(entry)
        document = {"id": name, "sha": commit, "siblings": siblings, "private": False, "gated": False} | repo.listing
        data = json.dumps(document).encode()
        self._send(200, data, "listing", len(data) // 2 if fault == "truncated" else None)

    def _resolve(self, name: str, commit: str, file: str, fault: str | None) -> None:
        repo = self._allowed(name)
        if repo is None:
            return
        content = repo.commits.get(commit, {}).get(file)
        if content is None:
            self._error(404, "EntryNotFound")
        elif file.endswith(".safetensors") and fault is None:
            self._send(302, b"", "other", Location=f"{self.hub.store_url}/{content.sha256}?{SIGNATURE}")
        else:
            self._file(content, "index" if file.endswith("index.json") else "other", fault)

    def _file(self, content: Content, kind: str, fault: str | None) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        start, stop = (int(match[1]), int(match[2]) + 1) if match else (0, content.size)
        stop = min(stop, content.size)
        if start >= content.size:
            self._error(416)
            return
        if fault is None:
            self._stream(content, start, stop, kind, partial=match is not None)
            return
        data, size = content.part(start, stop), content.size
        if fault == "whole":
            self._send(200, content.part(0, content.size), "other")
            return
        if fault == "other range":
            start, stop = start + 1, stop + 1
        elif fault == "wrong size":
            size += 1
        elif fault == "corrupt":
            data = bytes([data[0] ^ 1]) + data[1:]
        elif fault == "more":
            data += b"more"
        span = f"bytes {start}-{stop - 1}/{size}"
        short = len(data) // 2 if fault == "truncated" else None
        if kind == "weights":
            kind = _kind(content, start, stop)
        extra = {"Content-Encoding": "gzip"} if fault == "gzip" else {}
        self._send(206 if match else 200, data, kind, short, **{"Content-Range": span}, **extra)

    def _stream(self, content: Content, start: int, stop: int, kind: str, *, partial: bool) -> None:
        kind = _kind(content, start, stop) if kind == "weights" else kind
        self.send_response(206 if partial else 200)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{content.size}")
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        for piece in content.parts(start, stop):
            self.hub.count(kind, len(piece))
            self.wfile.write(piece)

    def _error(self, status: int, code: str = "") -> None:
        self._send(status, b'{"error":"no"}', "other", **({"X-Error-Code": code} if code else {}))

    def _send(self, status: int, data: bytes, kind: str, short: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.hub.count(kind, len(data) if short is None else short)
        self.wfile.write(data if short is None else data[:short])
        if short is not None:
            self.close_connection = True

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", "0")))

    def do_PUT(self) -> None:
        self._note(self.path, "")
        data = self._body()
        self.hub.store[hashlib.sha256(data).hexdigest()] = Content(data)
        self._send(200, b"", "other")

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self._note(path, "")
        body = self._body()
        fault = self.hub.take(f"/{self.name}{path}", "")
        if fault is not None and self._struck(fault):
            return
        if path == "/api/repos/create":
            document = json.loads(body)
            self.hub.created.append(document)
            name = f"{document.get('organization')}/{document['name']}"
            self.hub.repos.setdefault(name, Repo())
            self._json({"url": f"{self.hub.url}/{name}", "name": name})
        elif path.endswith("/preupload/main"):
            files = [
                {
                    "path": item["path"],
                    "uploadMode": "lfs" if item["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for item in json.loads(body)["files"]
            ]
            self._json({"files": files})
        elif path.endswith("/info/lfs/objects/batch"):
            objects = [
                {
                    **item,
                    "actions": {"upload": {"href": f"{self.hub.store_url}/{item['oid']}?{SIGNATURE}", "header": {}}},
                }
                for item in json.loads(body)["objects"]
            ]
            self._json({"transfer": "basic", "objects": objects})
        elif path.endswith("/commit/main"):
            self._commit(path, body)
        else:
            self._json({})

    def _commit(self, path: str, body: bytes) -> None:
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                self.hub.uploaded[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                self.hub.uploaded[value["path"]] = self.hub.store[value["oid"]].head
            elif entry["key"] == "deletedFile":
                self.hub.deleted.append(value["path"])
        name = path.removeprefix("/api/models/").removesuffix("/commit/main")
        self._json({"commitUrl": f"{self.hub.url}/{name}/commit/{'c' * 40}", "commitOid": "c" * 40, "success": True})

    def _json(self, document: Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _kind(content: Content, start: int, stop: int) -> str:
    """Say what a range of a safetensors file is: header, whole numbers, or weights."""
    end = 8 + int.from_bytes(content.head[:8], "little")
    if stop <= end:
        return "header"
    with contextlib.suppress(ValueError, AttributeError):
        header = json.loads(content.head[8:end])
        touched = {
            entry["dtype"]
            for name, entry in header.items()
            if name != "__metadata__"
            and entry["data_offsets"][0] + end < stop
            and start < entry["data_offsets"][1] + end
        }
        if start >= end and touched <= WHOLE_NUMBERS:
            return "whole numbers"
    return "weights"


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a converted folder, without the record, which names its source."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "provenance.json"}


@contextlib.contextmanager
def loopback(monkeypatch: Any, home: Path, *, token: str | None = TOKEN) -> Iterator[LoopbackHub]:
    """Run a Hub and point the client of this process at it, with caches of its own and no pauses."""
    with LoopbackHub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HOME", str(home / "hf"))
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hf" / "hub"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "hf" / "token"))
        monkeypatch.setattr(client, "PAUSE_SECONDS", 0)
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        if token is not None:
            monkeypatch.setenv("HF_TOKEN", token)
        mirror.forget()
        try:
            yield hub
        finally:
            mirror.forget()
