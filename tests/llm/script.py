"""What stands in a model's place: a script, what it answers, and what it reads of a request.

A step is a reply, or a callable that gets the request's JSON in the Messages API's form and returns one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = [
    "Answer",
    "ApiError",
    "Call",
    "Json",
    "Reply",
    "Routed",
    "Say",
    "Script",
    "ScriptedModel",
    "Step",
    "Think",
    "call",
    "last_text",
    "reply",
    "results",
    "system_of",
    "texts",
]

Json = dict[str, Any]


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
        if self._always is not None:  # without the lock: while it waits for something, others are answered
            return self._always(request)
        with self._lock:
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
