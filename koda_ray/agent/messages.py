"""An agent's history, and how it becomes something that a model accepts, whatever happened to it.

History is append-only: one row for each thing that was said or came back, written once. It may therefore hold a
person's words between a call and its result, results out of order, or a call whose process died. `repair` puts that
right in a copy, before every model call; nothing stored is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from koda_ray.agent.ledger import interrupted_content, recorded_result, result_block
from koda_ray.llm.base import Block, Message, TextBlock, ToolResultBlock, ToolUseBlock
from koda_ray.state.store import MessageRecord, ToolCallRecord

__all__ = [
    "CONTINUE",
    "OpenCall",
    "from_records",
    "open_calls",
    "repair",
    "text_of",
    "tool_results",
    "tool_uses",
]

CONTINUE = "(The conversation goes on.)"
"""What stands in for a person's first words when a history begins with the assistant's."""


@dataclass(frozen=True, kw_only=True)
class OpenCall:
    """A call without a result, and the assistant's message that holds it."""

    message: MessageRecord
    block: ToolUseBlock


def _blocks(record: MessageRecord) -> tuple[Block, ...]:
    """Read a row's blocks."""
    return tuple(cast("list[Block]", record.content))


def from_records(history: Sequence[MessageRecord]) -> tuple[Message, ...]:
    """Read rows as messages, in the order given."""
    return tuple(Message(role=record.role, content=_blocks(record)) for record in history)


def text_of(message: Message) -> str:
    """Join a message's words."""
    return "\n\n".join(block["text"] for block in message.content if block["type"] == "text" and block["text"])


def tool_uses(message: Message) -> tuple[ToolUseBlock, ...]:
    """Pick a message's calls, in order."""
    return tuple(block for block in message.content if block["type"] == "tool_use")


def tool_results(message: Message) -> tuple[ToolResultBlock, ...]:
    """Pick a message's results, in order."""
    return tuple(block for block in message.content if block["type"] == "tool_result")


def open_calls(history: Sequence[MessageRecord]) -> list[OpenCall]:
    """List calls that have no result anywhere in the history, in the order they were made."""
    answered = {
        block["tool_use_id"] for record in history for block in _blocks(record) if block["type"] == "tool_result"
    }
    calls: list[OpenCall] = []
    for record in history:
        for block in _blocks(record):
            if record.role == "assistant" and block["type"] == "tool_use" and block["id"] not in answered:
                answered.add(block["id"])
                calls.append(OpenCall(message=record, block=block))
    return calls


def repair(history: Sequence[Message], ledger: Mapping[str, ToolCallRecord]) -> tuple[Message, ...]:
    """Make a history that every provider accepts, keeping every word and every recorded outcome.

    In the result roles alternate and the user begins; each call is answered exactly once, in order, at the start of
    the next message; words said meanwhile follow the answers; no block is empty. A call without a result gets the
    ledger's outcome, and only where none was recorded the note that it was interrupted. Valid histories come back
    as they are, and repairing twice changes nothing.

    Args:
        history: Messages in order.
        ledger: Tool calls by id.
    """
    results: dict[str, ToolResultBlock] = {}
    for message in history:
        if message.role == "user":
            for block in tool_results(message):
                results.setdefault(block["tool_use_id"], block)
    out: list[Message] = []
    seen: set[str] = set()
    for message in history:
        if message.role == "user":
            _append(out, "user", tuple(_words(message)))
            continue
        kept = _spoken(message, seen)
        calls = [block for block in kept if block["type"] == "tool_use"]
        _append(out, "assistant", kept)
        _append(out, "user", tuple(results.get(c["id"]) or _answer(c, ledger.get(c["id"])) for c in calls))
    if out and out[0].role == "assistant":
        first: TextBlock = {"type": "text", "text": CONTINUE}
        out.insert(0, Message(role="user", content=(first,)))
    return tuple(out)


def _append(out: list[Message], role: str, blocks: tuple[Block, ...]) -> None:
    if not blocks:
        return
    if out and out[-1].role == role:
        out[-1] = Message(role=out[-1].role, content=(*out[-1].content, *blocks))
    else:
        out.append(Message(role="user" if role == "user" else "assistant", content=blocks))


def _words(message: Message) -> list[TextBlock]:
    return [block for block in message.content if block["type"] == "text" and block["text"].strip()]


def _spoken(message: Message, seen: set[str]) -> tuple[Block, ...]:
    """Keep what an assistant's message may hold: no empty text, no id twice, and no reasoning on its own."""
    kept: list[Block] = []
    for block in message.content:
        if block["type"] == "tool_use":
            if block["id"] in seen:
                continue
            seen.add(block["id"])
        elif block["type"] == "tool_result" or (block["type"] == "text" and not block["text"].strip()):
            continue
        kept.append(block)
    return tuple(kept) if any(block["type"] != "thinking" for block in kept) else ()


def _answer(call: ToolUseBlock, record: ToolCallRecord | None) -> ToolResultBlock:
    outcome = recorded_result(record)
    if outcome is None:
        return result_block(call["id"], interrupted_content(call["name"], record), is_error=True)
    return result_block(call["id"], outcome[0], is_error=outcome[1])
