"""A server that speaks a model provider's event stream, with a script in the model's place.

Real HTTP on loopback, so the real SDK talks to it, from this process or another (`ModelServer.base_url`). A script's
step is a reply, or a callable that gets the request's JSON and returns one: a test can hand out the fix only if the
request holds the real error. It is as strict as the API about histories and their length, and counts cache reads from
the prefixes that it received by the API's rules (marks, lookback, least length, life); it replays no numbers. It speaks
the Messages API unless it is given another `Wire` (`tests.llm.openai_server`, `tests.llm.gemini_server`): a script sees
requests of all in the Messages API's form.

    with ModelServer(ScriptedModel([reply("Hello"), lambda request: call("read", {"path": "a"})])) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)

Run on its own: ``python -m tests.llm.server package.module:script --port-file FILE``.

Source: Anthropic Messages API, streaming events, errors and prompt caching.
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
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from tests.llm.prompts import PromptCache, complaint_about, tokens_in

__all__ = [
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

Json = dict[str, Any]


# --- what a script answers ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Say:
    """Words."""

    text: str


@dataclass(frozen=True)
class Call:
    """A tool call; ``raw`` is sent as the input's text in place of ``input``, valid JSON or not."""

    name: str
    input: Json = field(default_factory=dict)
    raw: str | None = None
    id: str | None = None


@dataclass(frozen=True)
class Think:
    """Reasoning with the signature that must come back unchanged."""

    text: str
    signature: str = "sig"


@dataclass(frozen=True)
class Reply:
    """A message, and what goes wrong while it streams.

    Args:
        blocks: Its content.
        stop_reason: As the API names it; from the blocks when None.
        delta_chars: Characters in one delta.
        break_after: Deltas after which it breaks; None for never.
        broken: How: ``cut`` drops the connection, ``end`` closes it in good order without the message's end, any
            other word is the type of an ``error`` event.
        pause_s: Wait before each delta, with a ping first.
        hang: Ping for ever after ``break_after`` deltas (all when None), until the reader goes away.
    """

    blocks: tuple[Say | Call | Think, ...]
    stop_reason: str | None = None
    delta_chars: int = 12
    break_after: int | None = None
    broken: str = "cut"
    pause_s: float = 0.0
    hang: bool = False


@dataclass(frozen=True)
class ApiError:
    """An answer with an error status; ``retry_after`` in seconds, or the header's text."""

    status: int
    type: str = "api_error"
    message: str = "scripted"
    retry_after: float | str | None = None


Answer = Reply | ApiError | Say | Call | Sequence[Say | Call | Think]
Step = Answer | Callable[[Json], Answer]


class Script(Protocol):
    """Something that answers requests."""

    def respond(self, request: Json) -> Answer: ...


def reply(*blocks: Say | Call | Think | str, **options: Any) -> Reply:
    """Make a reply from blocks; a string is words."""
    return Reply(blocks=tuple(Say(b) if isinstance(b, str) else b for b in blocks), **options)


def call(name: str, given: Json | None = None, **options: Any) -> Reply:
    """Make a reply that calls one tool."""
    return reply(Call(name, given or {}), **options)


class ScriptedModel:
    """Answers step by step; a callable in place of the list answers every request.

    A step that raises, and a request after the last step, become failures that `ModelServer` raises when it closes.
    """

    def __init__(self, steps: Iterable[Step] | Callable[[Json], Answer]) -> None:
        self._always = steps if callable(steps) else None
        self._steps = [] if callable(steps) else list(steps)
        self._lock = threading.Lock()
        self.done = 0

    @property
    def finished(self) -> bool:
        """Whether every step was used."""
        return not self._steps

    def respond(self, request: Json) -> Answer:
        with self._lock:
            self.done += 1
            if self._always is not None:
                return self._always(request)
            if not self._steps:
                raise AssertionError(f"the script has no step left for request {self.done}: {last_text(request)[:400]}")
            step = self._steps.pop(0)
        return step(request) if callable(step) else step


class Routed:
    """Chooses a script for each request, such as one for each agent."""

    def __init__(self, by: Callable[[Json], str], scripts: dict[str, Script]) -> None:
        self._by = by
        self._scripts = scripts

    def respond(self, request: Json) -> Answer:
        return self._scripts[self._by(request)].respond(request)


# --- reading requests ---------------------------------------------------------------------------------------------


def system_of(request: Json) -> str:
    """Join the system prompt's parts."""
    system = request.get("system", [])
    return system if isinstance(system, str) else "\n".join(part["text"] for part in system)


def texts(request: Json) -> list[str]:
    """List the user's words, in order."""
    return [b["text"] for m in request["messages"] if m["role"] == "user" for b in m["content"] if b["type"] == "text"]


def last_text(request: Json) -> str:
    """Read the last of the user's words."""
    return (texts(request) or [""])[-1]


def results(request: Json, name: str | None = None) -> list[Json]:
    """List tool results, in order, of one tool when named; each has the call's ``name`` and ``input`` added."""
    calls = {b["id"]: b for m in request["messages"] for b in m["content"] if b["type"] == "tool_use"}
    found = [
        {**b, "name": calls[b["tool_use_id"]]["name"], "input": calls[b["tool_use_id"]]["input"]}
        for m in request["messages"]
        for b in m["content"]
        if b["type"] == "tool_result"
    ]
    return [each for each in found if name is None or each["name"] == name]


# --- the server ---------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A piece of a stream: a ``delta`` of the content, the ``end`` of the message or what follows it, or neither."""

    kind: Literal["delta", "end", "other"]
    data: bytes


class Wire(Protocol):
    """One provider's API."""

    def key(self, headers: dict[str, str]) -> str:
        """Read the key that a request bears."""
        ...

    def asked(self, path: str, request: Json) -> Json | None:
        """Read a request into the Messages API's form; None where the path is not of this API."""
        ...

    def complaint(self, request: Json, asked: Json) -> str | None:
        """Say why the API would refuse a request; None when it would not."""
        ...

    def count(self, request: Json, asked: Json) -> Json:
        """Count the prompt's tokens, and those of them read from the cache."""
        ...

    def counted(self, path: str, request: Json) -> Json | None:
        """Answer a question for a prompt's tokens; None where the path asks something else."""
        ...

    def too_long(self, tokens: int, most: int) -> ApiError:
        """Refuse a prompt for its length."""
        ...

    def wrong_key(self, key: str) -> ApiError:
        """Refuse a key."""
        ...

    def error(self, answer: ApiError) -> tuple[Json, dict[str, str]]:
        """Write an error's body and headers."""
        ...

    def stream(self, answer: Reply, asked: Json, usage: Json) -> Iterable[Part]:
        """Write a message."""
        ...

    def idle(self) -> bytes:
        """Write what keeps a stream alive and says nothing; empty where the API has no such thing."""
        ...

    def failure(self, kind: str) -> bytes:
        """Write an error in the middle of a stream."""
        ...


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


class MessagesWire:
    """Anthropic's API.

    Args:
        clock: The time by which its cache forgets, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache = PromptCache(clock)

    def key(self, headers: dict[str, str]) -> str:
        # the SDK's second major version sends the key as a bearer token
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def asked(self, path: str, request: Json) -> Json | None:
        return request if path.partition("?")[0] == "/v1/messages" else None

    def complaint(self, request: Json, asked: Json) -> str | None:
        return complaint_about(asked)

    def count(self, request: Json, asked: Json) -> Json:
        return self._cache.count(asked)

    def counted(self, path: str, request: Json) -> Json | None:
        if path.partition("?")[0] != "/v1/messages/count_tokens":
            return None
        assert not request.keys() & {"max_tokens", "stream"}, "count_tokens takes no such field"
        return {"input_tokens": tokens_in(request)}

    def too_long(self, tokens: int, most: int) -> ApiError:
        return ApiError(400, "invalid_request_error", f"prompt is too long: {tokens} tokens > {most} maximum")

    def wrong_key(self, key: str) -> ApiError:
        return ApiError(401, "authentication_error", f"invalid x-api-key {key}")

    def error(self, answer: ApiError) -> tuple[Json, dict[str, str]]:
        headers = {"request-id": "req_scripted"}
        if answer.retry_after is not None:
            headers["retry-after"] = str(answer.retry_after)
        return {"type": "error", "error": {"type": answer.type, "message": answer.message}}, headers

    def stream(self, answer: Reply, asked: Json, usage: Json) -> Iterable[Part]:
        for kind, event in _events(answer, asked["model"], usage):
            part: Literal["delta", "end", "other"] = "other"
            if kind in ("content_block_delta", "message_delta"):
                part = "delta" if kind == "content_block_delta" else "end"
            yield Part(part, _sse(kind, event))

    def idle(self) -> bytes:
        return _sse("ping", {"type": "ping"})

    def failure(self, kind: str) -> bytes:
        return _sse("error", self.error(ApiError(200, kind))[0])


def _sse(kind: str, event: Json) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def _events(answer: Reply, model: str, usage: Json) -> Iterable[tuple[str, Json]]:
    """Write a message as the API's events."""
    stop = answer.stop_reason or ("tool_use" if any(isinstance(b, Call) for b in answer.blocks) else "end_turn")
    message = {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield "message_start", {"type": "message_start", "message": message}
    produced = 1
    for index, block in enumerate(answer.blocks):
        start, deltas = _parts(block, answer.delta_chars)
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": start}
        if index == 0:
            yield "ping", {"type": "ping"}
        for delta in deltas:
            produced += 1
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": produced}}
    yield "message_stop", {"type": "message_stop"}


def _parts(block: Say | Call | Think, size: int) -> tuple[Json, list[Json]]:
    if isinstance(block, Say):
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": t} for t in cut(block.text, size)]
    if isinstance(block, Think):
        deltas: list[Json] = [{"type": "thinking_delta", "thinking": t} for t in cut(block.text, size)]
        deltas.append({"type": "signature_delta", "signature": block.signature})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    text = json.dumps(block.input, ensure_ascii=False) if block.raw is None else block.raw
    start = {"type": "tool_use", "id": block.id or f"toolu_{uuid.uuid4().hex[:24]}", "name": block.name, "input": {}}
    if text == "{}":
        return start, []
    return start, [{"type": "input_json_delta", "partial_json": t} for t in ["", *cut(text, size)]]


def cut(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


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
