"""A bucket as R2 is: it takes one write a second of each key, and answers 429 to others."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import urlsplit

import httpx

__all__ = ["StrictBucket", "strict_bucket"]

APART_S = 1.0
_REFUSAL = (
    b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>ServiceUnavailable</Code>"
    b"<Message>Reduce your concurrent request rate for the same object.</Message></Error>"
)


class StrictBucket:
    """What was written, and what was refused, in front of a bucket that takes everything.

    Attributes:
        endpoint: Where it is.
        written: How often each key was.
        refused: How often a write of each key came too soon.
    """

    def __init__(self, behind: str) -> None:
        self._behind = behind
        self._last: dict[str, float] = {}
        self._lock = Lock()
        self.endpoint = ""
        self.written: dict[str, int] = {}
        self.refused: dict[str, int] = {}

    def takes(self, key: str) -> bool:
        """Whether a key may be written now."""
        with self._lock:
            at = time.monotonic()
            is_taken = at - self._last.get(key, float("-inf")) >= APART_S
            if is_taken:
                self._last[key] = at
            counted = self.written if is_taken else self.refused
            counted[key] = counted.get(key, 0) + 1
            return is_taken

    def pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> httpx.Response:
        """Have the bucket behind answer; a signature names the host that was asked."""
        return httpx.request(method, self._behind + path, headers=headers, content=body, timeout=30, trust_env=False)


@contextmanager
def strict_bucket(behind: str) -> Generator[StrictBucket]:
    """Stand before a bucket's endpoint."""
    bucket = StrictBucket(behind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            key = urlsplit(self.path).path
            if self.command == "PUT" and not bucket.takes(key):
                self._send(429, {"Content-Type": "application/xml"}, _REFUSAL)
                return
            kept = {name: value for name, value in self.headers.items() if name.lower() not in ("connection",)}
            answer = bucket.pass_on(self.command, self.path, kept, body)
            told = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() not in ("transfer-encoding", "connection", "content-encoding", "date", "server")
            }
            self._send(answer.status_code, told, answer.content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            length = headers.get("content-length") if self.command == "HEAD" else None
            for name, value in headers.items():
                if name.lower() != "content-length":
                    self.send_header(name, value)
            self.send_header("Content-Length", length or str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    bucket.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
