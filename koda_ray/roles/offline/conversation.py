"""The orchestrator's conversation: the session's state as it is shown in it, the calls made, and the turn to come."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from koda_ray.llm.base import Message
from koda_ray.roles.offline.given import answers_in, items, mapping, parsed, pointed_in
from koda_ray.types import Answered, Plan, Pointed

__all__ = ["Call", "Exchange", "PolicyCalls", "SeenSession", "Turn", "exchanges", "last_stop", "read_state"]

_STATE = re.compile(r"<state>\s*(\{.*\})\s*</state>", re.S)
_SESSION = re.compile(r"<session>\s*(\{.*\})\s*</session>", re.S)


@dataclass(frozen=True)
class Call:
    """A tool to run."""

    id: str
    name: str
    input: dict[str, JsonValue]


@dataclass(frozen=True)
class Turn:
    """One assistant message: words, and the tools it wants run in order; no tools ends the turn."""

    text: str = ""
    calls: tuple[Call, ...] = ()


class PolicyCalls:
    """Makes calls whose ids depend on the conversation's length and the call's place: unique and repeatable."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._turn = len(messages)
        self._made: list[Call] = []

    def add(self, tool: str, /, **values: JsonValue) -> None:
        """Add a call."""
        digest = hashlib.sha256(f"{self._turn}:{len(self._made)}:{tool}".encode()).hexdigest()[:8]
        self._made.append(Call(f"toolu_{tool}_{self._turn}_{digest}", tool, dict(values)))

    def turn(self) -> Turn:
        """Return the turn that makes these calls."""
        return Turn(calls=tuple(self._made))


@dataclass(frozen=True)
class Exchange:
    """A tool call and what came back; ``result`` is None while it has none. ``turn`` counts assistant messages."""

    call: Call
    result: str | None
    failed: bool
    turn: int


def exchanges(messages: Sequence[Message]) -> list[Exchange]:
    """Return every call of the conversation, in order."""
    results: dict[str, tuple[str, bool]] = {}
    for message in messages:
        for block in message.content:
            if block["type"] == "tool_result":
                results[block["tool_use_id"]] = (block["content"], block["is_error"])
    done: list[Exchange] = []
    for turn, message in enumerate(m for m in messages if m.role == "assistant"):
        for block in message.content:
            if block["type"] == "tool_use":
                content, failed = results.get(block["id"], (None, False))
                call = Call(block["id"], block["name"], block["input"])
                done.append(Exchange(call, content, failed, turn))
    return done


def last_stop(messages: Sequence[Message]) -> int:
    """Return the number of the last assistant message that ended its turn, or -1."""
    last = -1
    for turn, message in enumerate(m for m in messages if m.role == "assistant"):
        if all(block["type"] != "tool_use" for block in message.content):
            last = turn
    return last


@dataclass(frozen=True, kw_only=True)
class SeenSession:
    """The session's state as the policy reads it; see `read_state`."""

    prompt: str
    answers: tuple[Answered, ...]
    plan: Plan | None
    plan_accepted: bool
    todos: tuple[tuple[str, str], ...]
    feedback: tuple[str, ...]
    pointed: tuple[Pointed, ...]
    assets: tuple[dict[str, str], ...]
    has_preview: bool
    phase: str
    options: dict[str, object]
    files: tuple[str, ...]


def read_state(messages: Sequence[Message], system: Sequence[str] = ()) -> SeenSession:
    """Read the ``<session>`` block and the newest ``<state>`` block; what they lack is taken as not there yet.

    Without a block the conversation's first words are the prompt, so that the director also answers a bare request.
    """
    raw, first_words = _newest_block(messages)
    about = _SESSION.search(system[-1]) if system else None
    known = parsed(about.group(1) if about else "")
    both = {name: [*items(known.get(name)), *items(raw.get(name))] for name in ("feedback", "pointed")}
    raw = {**known, **raw, **both}
    plan = raw.get("plan")
    todos = [mapping(t) for t in items(raw.get("todos"))]
    return SeenSession(
        prompt=str(raw.get("prompt") or first_words),
        answers=answers_in(raw.get("answers")),
        plan=Plan.model_validate(plan) if isinstance(plan, dict) else None,
        plan_accepted=bool(raw.get("planAccepted")),
        todos=tuple((str(t.get("id", "")), str(t.get("status", "pending"))) for t in todos),
        feedback=tuple(str(f) for f in items(raw.get("feedback"))),
        pointed=pointed_in(raw.get("pointed")),
        assets=tuple({k: str(v) for k, v in mapping(a).items()} for a in items(raw.get("assets"))),
        has_preview=bool(raw.get("hasPreview")),
        phase=str(raw.get("phase") or ""),
        options=dict(mapping(raw.get("options"))),
        files=tuple(str(f) for f in items(raw.get("files"))),
    )


def _newest_block(messages: Sequence[Message]) -> tuple[dict[str, object], str]:
    """Return the newest ``<state>`` block, and the first words that are none."""
    raw: dict[str, object] = {}
    first_words = ""
    for message in messages:
        if message.role != "user":
            continue
        for block in message.content:
            if block["type"] != "text":
                continue
            found = _STATE.search(block["text"])
            if found:
                raw = dict(parsed(found.group(1)))
            elif not first_words:
                first_words = block["text"]
    return raw, first_words
