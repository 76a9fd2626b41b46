"""What of a long history a model is shown, and where the present state goes.

The last messages are whole. Of older ones every word of the person stays, and what was done stays as one line each;
tool inputs and results go. The cut moves in steps, not with each message, so that the prompt's beginning stays the
same for many calls and is read from the provider's cache.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from koda_ray.agent.messages import tool_results, tool_uses
from koda_ray.llm.base import Message, TextBlock, ToolResultBlock, ToolUseBlock

__all__ = ["KEEP_LAST", "PRUNE_STEP", "prune", "with_state"]

KEEP_LAST = 10
"""Messages at the end that stay whole."""

PRUNE_STEP = 10
"""Messages by which the cut moves at a time."""

_SAID_CHARS = 400
_ERROR_CHARS = 200
_ARGUMENT_CHARS = 60
_MAX_ACTIONS = 200


def prune(
    messages: Sequence[Message],
    *,
    keep_last: int = KEEP_LAST,
    step: int = PRUNE_STEP,
    verbatim: frozenset[str] = frozenset(),
) -> tuple[Message, ...]:
    """Shorten the older part of a repaired history to one block at its beginning.

    A call and its result are never separated, and the person's words are never shortened.

    Args:
        messages: A repaired history (roles alternate, results follow their calls).
        keep_last: Messages at the end that stay whole, at least.
        step: Messages by which the cut moves at a time.
        verbatim: Names of tools whose results are a person's words.
    """
    cut = max(0, len(messages) - keep_last) // step * step
    while cut > 0 and tool_results(messages[cut]):
        cut -= 1
    if cut < 2:
        return tuple(messages)
    note: TextBlock = {"type": "text", "text": _earlier(messages[:cut], verbatim)}
    kept = messages[cut:]
    if kept[0].role == "user":
        return (Message(role="user", content=(note, *kept[0].content)), *kept[1:])
    return (Message(role="user", content=(note,)), *kept)


def with_state(messages: Sequence[Message], state: str) -> tuple[Message, ...]:
    """Append the present state to the last message, the user's; an empty state changes nothing."""
    if not state or not messages or messages[-1].role != "user":
        return tuple(messages)
    block: TextBlock = {"type": "text", "text": state}
    return (*messages[:-1], Message(role="user", content=(*messages[-1].content, block)))


def _earlier(messages: Sequence[Message], verbatim: frozenset[str]) -> str:
    results = {block["tool_use_id"]: block for message in messages for block in tool_results(message)}
    entries: list[dict[str, JsonValue]] = []
    for message in messages:
        for block in message.content:
            if block["type"] == "text":
                said = block["text"] if message.role == "user" else _cut(block["text"], _SAID_CHARS)
                entries.append({"person" if message.role == "user" else "you": said})
        for call in tool_uses(message):
            _add_action(entries, _action(call, results.get(call["id"]), verbatim))
    actions = sum("did" in entry for entry in entries)
    left_out = actions - _MAX_ACTIONS
    shown: list[dict[str, JsonValue]] = []
    for entry in entries:
        if left_out > 0 and "did" in entry and "answer" not in entry:
            left_out -= 1
            continue
        shown.append(entry)
    lines = "\n".join(json.dumps(entry, ensure_ascii=False) for entry in shown)
    return (
        "<earlier>\nWhat happened before, shortened: the person's words are complete, of your own actions only what "
        f"they were. Files may have changed since.\n{lines}\n</earlier>"
    )


def _action(call: ToolUseBlock, result: ToolResultBlock | None, verbatim: frozenset[str]) -> dict[str, JsonValue]:
    entry: dict[str, JsonValue] = {"did": call["name"]}
    short: dict[str, JsonValue] = {
        key: value
        for key, value in call["input"].items()
        if isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= _ARGUMENT_CHARS)
    }
    if short:
        entry["with"] = short
    if result is None:
        return entry
    if result["is_error"]:
        entry["failed"] = _cut(result["content"], _ERROR_CHARS)
    elif call["name"] in verbatim:
        entry["answer"] = result["content"]
    return entry


def _add_action(entries: list[dict[str, JsonValue]], action: dict[str, JsonValue]) -> None:
    """Add an action, or count it when it equals the one before."""
    last = entries[-1] if entries else {}
    if {key: value for key, value in last.items() if key != "times"} == action:
        times = last.get("times", 1)
        last["times"] = (times if isinstance(times, int) else 1) + 1
    else:
        entries.append(action)


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[:chars] + " [...]"
