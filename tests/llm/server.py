"""A server that speaks a model provider's event stream, with a script in the model's place.

Real HTTP on loopback, so the real SDK talks to it, from this process or another (`ModelServer.base_url`). A test can
hand out the fix only if the request holds the real error (`tests.llm.script`). It is as strict as the API about
histories and their length, and counts cache reads from the prefixes that it received by the API's rules (marks,
lookback, least length, life); it replays no numbers. It speaks the Messages API unless it is given another `Wire`
(`tests.llm.openai_server`, `tests.llm.gemini_server`): a script sees requests of all in the Messages API's form.

    with ModelServer(ScriptedModel([reply("Hello"), lambda request: call("read", {"path": "a"})])) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)

Run on its own: ``python -m tests.llm.server package.module:script --port-file FILE``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from tests.llm.prompts import tokens_in
from tests.llm.script import (
    Answer,
    ApiError,
    Call,
    Json,
    Reply,
    Routed,
    Say,
    Script,
    ScriptedModel,
    Step,
    Think,
    call,
    last_text,
    reply,
    results,
    system_of,
    texts,
)
from tests.llm.wire import MessagesWire, Part, Wire, cut

__all__ = [
    "Answer",
    "ApiError",
    "Call",
    "Json",
    "MessagesWire",
    "ModelServer",
    "Part",
    "Recorded",
    "Reply",
    "Routed",
    "Say",
    "Script",
    "ScriptedModel",
    "Step",
    "Think",
    "Wire",
    "call",
    "cut",
    "last_text",
    "reply",
    "results",
    "system_of",
    "texts",
]


@dataclass
class Recorded:
    """One request as it came (``json``), in the Messages API's form (``asked``), and what became of it."""

    json: Json
    headers: dict[str, str]
    path: str = ""
    asked: Json = field(default_factory=dict)
    status: int = 0
    usage: Json = field(default_factory=dict)
    outcome: Literal["open", "sent", "broken", "reader_left"] = "open"


class ModelServer:
    """Serves a script at ``base_url`` until closed.

    Args:
        script: What answers.
        api_key: The only key that is let in.
        port: Where; a free one when 0.
        wire: What it speaks; the Messages API when None.
        context_tokens: The longest prompt that it takes.
    """

    def __init__(
        self,
        script: Script,
        *,
        api_key: str = "test-key",
        port: int = 0,
        wire: Wire | None = None,
        context_tokens: int = 200_000,
    ) -> None:
        self.script = script
        self.wire: Wire = wire or MessagesWire()
        self.context_tokens = context_tokens
        self.counted = 0
        self.api_key = api_key
        self.requests: list[Recorded] = []
        self.failures: list[BaseException] = []
        self.connections = 0
        self.closing = threading.Event()
        self.lock = threading.Lock()
        self._http = _Server(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="model-server", daemon=True)

    @property
    def base_url(self) -> str:
        """Where a client of any process finds it."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def start(self) -> ModelServer:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop serving and raise the first failure of the script."""
        if not self.closing.is_set():
            self.closing.set()
            self._http.shutdown()
            self._http.server_close()
            self._thread.join(60)
        if self.failures:
            raise self.failures[0]

    def wait_for(self, happened: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
        """Wait until something has happened on the server's side."""
        deadline = time.monotonic() + timeout_s
        while not happened():
            if time.monotonic() > deadline:
                raise AssertionError("it did not happen in time")
            self.closing.wait(0.005)

    def __enter__(self) -> ModelServer:
        return self.start()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.close()
        except BaseException as failure:
            if error is None:
                raise
            error.add_note(f"the script failed first: {failure!r}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what went wrong here; a reader that goes away is no error of the server."""
        failure = sys.exception()
        if failure is not None and not isinstance(failure, OSError):
            with self.owner.lock:
                self.owner.failures.append(failure)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        with self.server.owner.lock:
            self.server.owner.connections += 1

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        owner = self.server.owner
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        record = Recorded(json=json.loads(raw or b"{}"), headers=headers, path=self.path)
        if (counted := owner.wire.counted(self.path, record.json)) is not None:
            with owner.lock:
                owner.counted += 1
            self._tell(200, counted, {})
            return
        with owner.lock:
            owner.requests.append(record)
        answer = self._decide(owner, record)
        if isinstance(answer, ApiError):
            record.status, record.outcome = answer.status, "sent"
            self._error(answer)
            return
        record.status = 200
        with owner.lock:
            record.usage = owner.wire.count(record.json, record.asked)
        try:
            record.outcome = self._stream(owner, answer, record)
        except OSError:
            record.outcome = "reader_left"
            self.close_connection = True

    def _decide(self, owner: ModelServer, record: Recorded) -> Reply | ApiError:
        key = owner.wire.key(record.headers)
        if key != owner.api_key:
            # a careless proxy echoes the key; nobody else may
            return owner.wire.wrong_key(key)
        asked = owner.wire.asked(self.path, record.json)
        if asked is None:
            return ApiError(404, "not_found_error", f"no such path {self.path}")
        record.asked = asked
        if (complaint := owner.wire.complaint(record.json, asked)) is not None:
            return ApiError(400, "invalid_request_error", complaint)
        if (tokens := tokens_in(asked)) > owner.context_tokens:
            return owner.wire.too_long(tokens, owner.context_tokens)
        try:
            answer = owner.script.respond(asked)
            if isinstance(answer, Say | Call):
                return reply(answer)
            return answer if isinstance(answer, Reply | ApiError) else reply(*answer)
        except BaseException as failure:
            with owner.lock:
                owner.failures.append(failure)
            return ApiError(400, "invalid_request_error", f"script: {failure!r}")

    def _error(self, answer: ApiError) -> None:
        told, headers = self.server.owner.wire.error(answer)
        self._tell(answer.status, told, headers)

    def _tell(self, status: int, told: Json, headers: dict[str, str]) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, owner: ModelServer, answer: Reply, record: Recorded) -> Literal["sent", "broken", "reader_left"]:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("request-id", "req_scripted")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        deltas = 0
        for kind, data in owner.wire.stream(answer, record.asked, record.usage):
            due = answer.break_after is not None and deltas >= answer.break_after
            if due and kind != "other":
                return self._break(owner, answer)
            if kind == "delta":
                deltas += 1
                if answer.pause_s:
                    self._send(owner.wire.idle())
                    owner.closing.wait(answer.pause_s)
            elif kind == "end" and answer.hang:
                return self._hang(owner)
            self._send(data)
        self.wfile.write(b"0\r\n\r\n")
        return "sent"

    def _break(self, owner: ModelServer, answer: Reply) -> Literal["broken", "reader_left"]:
        if answer.hang:
            return self._hang(owner)
        self.close_connection = True
        if answer.broken == "cut":
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        elif answer.broken == "end":
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._send(owner.wire.failure(answer.broken))
            self.wfile.write(b"0\r\n\r\n")
        return "broken"

    def _hang(self, owner: ModelServer) -> Literal["reader_left"]:
        while not owner.closing.wait(0.02):
            self._send(owner.wire.idle())
            heard, _, _ = select.select([self.connection], [], [], 0)
            if heard and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError
        return "reader_left"

    def _send(self, data: bytes) -> None:
        if not data:
            return
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def main() -> None:
    """Serve a script until ended; the address is written to the port file once it answers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("script", help="package.module:name of a Script, or of a callable that makes one")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file", type=Path)
    options = parser.parse_args()
    module, _, name = options.script.partition(":")
    script = getattr(importlib.import_module(module), name)
    server = ModelServer(script() if callable(script) else script, port=options.port).start()
    if options.port_file is not None:
        part = options.port_file.with_suffix(".part")
        part.write_text(server.base_url)
        part.rename(options.port_file)
    server.closing.wait()


if __name__ == "__main__":
    from tests.llm import server  # one module, not two: the script's classes are those of the import

    server.main()
