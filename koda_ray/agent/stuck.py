"""Whether an agent is stuck: the same calls again and again, error after error, empty answers, nothing done of a list.

Pure, over the history since a person last spoke: what a person says starts every count anew, and what the program
itself says (`koda_ray.agent.own_words`) starts none. A call that did change something is progress for those that failed
before it, because the next try then meets a different world; a round of calls that change things and give the same
results each time is none.
That a process was killed while a call ran is no failure of the call, and only counts among errors in a row: a call that
ends its process each time ends somewhere, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import JsonValue

from koda_ray.agent.ledger import is_interrupted
from koda_ray.agent.own_words import EMPTY, are_a_persons, is_a_persons
from koda_ray.llm.base import Message, ToolUseBlock
from koda_ray.state.records import MessageRecord

__all__ = ["StuckLimits", "going_in_circles", "last_said"]

_Changes: TypeAlias = Callable[[str, Mapping[str, JsonValue]], bool]
_LONGEST_ROUND = 4


@dataclass(frozen=True, kw_only=True)
class StuckLimits:
    """How often is too often.

    Args:
        failures: Failures of one call with one input, nothing having changed in between.
        same: One call in a row, with one input and one result; somebody may be waiting for something.
        rounds: Rounds of two to four calls that are the same in input and result.
        alike: Rounds of two to four calls that are the same in input, whatever came of them.
        errors: Results in a row that are errors, whatever the calls.
        empty: Answers in a row that hold neither words nor calls.
        todos: Calls without progress on a list of things to do, on which something is open.
    """

    failures: int = 3
    same: int = 8
    rounds: int = 4
    alike: int = 20
    errors: int = 10
    empty: int = 3
    todos: int = 60


@dataclass(frozen=True)
class _Step:
    """A call and what came of it."""

    name: str
    input: Mapping[str, JsonValue]
    key: str
    result: str
    is_error: bool


def last_said(history: Sequence[MessageRecord]) -> int:
    """Return from where on to look: the answer before the person's last words, whose results may come after those."""
    index = len(history) - 1
    while index >= 0 and not is_a_persons(history[index]):
        index -= 1
    while index > 0 and history[index].role == "user":
        index -= 1
    return max(0, index)


def going_in_circles(
    history: Sequence[Message],
    changes: _Changes,
    limits: StuckLimits | None = None,
    *,
    tracks: Callable[[str], bool] = lambda _: False,
    todo: str = "",
) -> str | None:
    """Look for a circle.

    Args:
        history: Messages in order; results of calls that are not among them count for nothing.
        changes: Whether a call of that name with that input may have changed something.
        limits: How often is too often.
        tracks: Whether a tool of that name moves things on the list of things to do.
        todo: What is to be done next on that list; empty where nothing is open, or there is none.

    Returns:
        A sentence for a person, or None.
    """
    limits = limits or StuckLimits()
    steps = _steps(history)
    return (
        _failing(steps, changes, limits.failures)
        or _erring(steps, limits.errors)
        or _rounds(steps, limits)
        or _empty(history, limits.empty)
        or (_idling(steps, tracks, limits.todos, todo) if todo else None)
    )


def _steps(history: Sequence[Message]) -> list[_Step]:
    """List what was called and came of it since a person last spoke."""
    steps: list[_Step] = []
    calls: dict[str, ToolUseBlock] = {}
    for message in history:
        for block in message.content:
            if block["type"] == "tool_use":
                calls[block["id"]] = block
            elif block["type"] == "text" and message.role == "user" and are_a_persons(block["text"]):
                steps.clear()
            elif block["type"] == "tool_result" and (call := calls.get(block["tool_use_id"])) is not None:
                key = call["name"] + json.dumps(call["input"], sort_keys=True)
                steps.append(_Step(call["name"], call["input"], key, block["content"], block["is_error"]))
    return steps


def _failing(steps: Sequence[_Step], changes: _Changes, limit: int) -> str | None:
    failures: dict[str, int] = {}
    for step in steps:
        if not step.is_error:
            failures.pop(step.key, None)
            if changes(step.name, step.input):
                failures.clear()
            continue
        if is_interrupted(step.result):
            continue
        failures[step.key] = failures.get(step.key, 0) + 1
        if failures[step.key] >= limit:
            return f"{step.name} failed {limit} times with the same input, last with: {step.result}"
    return None


def _erring(steps: Sequence[_Step], limit: int) -> str | None:
    last = steps[-limit:]
    if len(last) < limit or not all(step.is_error for step in last):
        return None
    return f"the last {limit} calls all failed, last {last[-1].name} with: {last[-1].result}"


def _rounds(steps: Sequence[_Step], limits: StuckLimits) -> str | None:
    for length in range(1, _LONGEST_ROUND + 1):
        times = limits.same if length == 1 else limits.rounds
        names = ", ".join(step.name for step in steps[-length:])
        what = f"{names} was called" if length == 1 else f"the calls {names} were made"
        if _repeats(steps, length, times):
            return f"{what} {times} times in a row with the same input and the same result"
        # one call with other results is waiting for something that moves
        asked = [step.key for step in steps[-length * limits.alike :]]
        if length > 1 and _repeats(asked, length, limits.alike):
            return f"{what} {limits.alike} times in a row with the same input, and nothing else"
    return None


def _repeats(steps: Sequence[object], length: int, times: int) -> bool:
    tail = steps[-length * times :]
    return len(tail) == length * times and all(step == tail[i % length] for i, step in enumerate(tail))


def _empty(history: Sequence[Message], limit: int) -> str | None:
    """Count the loop's notes about empty answers since anything else was said or done."""
    count = 0
    for message in history:
        for block in message.content:
            if block["type"] == "text":
                words = block["text"].strip()
                count = count + 1 if words == EMPTY else 0 if words else count
            elif block["type"] != "thinking":
                count = 0
    return f"{count} answers in a row were empty" if count >= limit else None


def _idling(steps: Sequence[_Step], tracks: Callable[[str], bool], limit: int, todo: str) -> str | None:
    """Count the calls since something was moved to where it had not been: to and fro is no progress."""
    seen: set[str] = set()
    since = 0
    for step in steps:
        since += 1
        if not step.is_error and tracks(step.name) and step.key not in seen:
            seen.add(step.key)
            since = 0
    return f"{since} calls brought no progress on {todo!r}" if since >= limit else None
