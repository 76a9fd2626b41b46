"""What a model's server speaks: one provider's API, and Anthropic's Messages API.

Source: Anthropic Messages API, streaming events, errors and prompt caching.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, Protocol

from tests.llm.prompts import PromptCache, complaint_about, tokens_in
from tests.llm.script import ApiError, Call, Json, Reply, Say, Think

__all__ = ["MessagesWire", "Part", "Wire", "cut"]


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
