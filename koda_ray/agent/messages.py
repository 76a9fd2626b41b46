"""An agent's history, and how it becomes something that a model accepts, whatever happened to it.

History is append-only: one row for each thing that was said or came back, written once. It may therefore hold a
person's words between a call and its result, results out of order, or a call whose process died. `repair` puts that
right in a copy, before every model call; nothing stored is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from koda_ray.agent.ledger import OpenCall, interrupted_content, recorded_result, result_block
from koda_ray.llm.base import Block, ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from koda_ray.state.records import MessageRecord, ToolCallRecord

__all__ = [
    "CONTINUE",
    "OpenCalls",
    "Repaired",
    "from_records",
    "open_calls",
    "repair",
    "text_of",
    "tool_results",
    "tool_uses",
]

CONTINUE = "(The conversation goes on.)"
"""What stands in for a person's first words when a history begins with the assistant's."""


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


def open_calls(history: Sequence[MessageRecord], elsewhere: Collection[str] = ()) -> list[OpenCall]:
    """List calls that have no result anywhere in the history, in the order they were made.

    Args:
        history: Messages in order.
        elsewhere: Ids of calls whose results are not among these.
    """
    found = OpenCalls(elsewhere)
    for record in history:
        found.add(record)
    return found.calls


class OpenCalls:
    """The calls of a history that have no result, as its messages go by: no more of them is held than those.

    Args:
        elsewhere: Ids of calls whose results are not among these.
    """

    def __init__(self, elsewhere: Collection[str] = ()) -> None:
        self._answered = {*elsewhere}
        self._open: dict[str, OpenCall] = {}

    def add(self, record: MessageRecord) -> None:
        """Take the next message."""
        for block in _blocks(record):
            if block["type"] == "tool_result":
                self._answered.add(block["tool_use_id"])
                self._open.pop(block["tool_use_id"], None)
            elif record.role == "assistant" and block["type"] == "tool_use" and block["id"] not in self._answered:
                self._open.setdefault(block["id"], OpenCall(message=record, block=block))

    @property
    def calls(self) -> list[OpenCall]:
        """Those that have none so far, in the order in which they were made."""
        return list(self._open.values())


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
    return _begun(_Mended().more(history, ledger).out)


class Repaired:
    """A history that grows, repaired as by `repair`; what has all its results is looked at once."""

    def __init__(self) -> None:
        self._settled: list[MessageRecord] = []
        self._mended = _Mended()

    def of(self, history: Sequence[MessageRecord], ledger: Mapping[str, ToolCallRecord]) -> tuple[Message, ...]:
        """Repair it as it is now. Messages that are as they were the last time are the same objects."""
        if list(history[: len(self._settled)]) != self._settled:  # it was put back, or something came in between
            self._settled, self._mended = [], _Mended()
        new = history[len(self._settled) :]
        done = _answered(new, self._mended.results)
        if done:
            self._settled += new[:done]
            self._mended.more(from_records(new[:done]), ledger)
        return _begun(self._mended.copy().more(from_records(new[done:]), ledger).out)


@dataclass
class _Mended:
    """How far a repair has come."""

    out: list[Message] = field(default_factory=list[Message])
    seen: set[str] = field(default_factory=set[str])
    results: dict[str, ToolResultBlock] = field(default_factory=dict[str, ToolResultBlock])

    def copy(self) -> _Mended:
        return _Mended(self.out.copy(), self.seen.copy(), self.results.copy())

    def more(self, history: Sequence[Message], ledger: Mapping[str, ToolCallRecord]) -> _Mended:
        """Go on with what comes next; a result that comes later still is not seen."""
        for message in history:
            if message.role == "user":
                for block in tool_results(message):
                    self.results.setdefault(block["tool_use_id"], block)
        for message in history:
            if message.role == "user":
                _append(self.out, "user", tuple(_words(message)))
                continue
            kept = _spoken(message, self.seen)
            calls = [block for block in kept if block["type"] == "tool_use"]
            _append(self.out, "assistant", kept)
            answers = (self.results.get(c["id"]) or _answer(c, ledger.get(c["id"])) for c in calls)
            _append(self.out, "user", tuple(answers))
        return self


def _answered(history: Sequence[MessageRecord], before: Collection[str]) -> int:
    """Count the messages at the beginning among which, and ``before``, each call has its result."""
    results, waiting, count = set(before), set[str](), 0
    for index, record in enumerate(history, start=1):
        for block in _blocks(record):
            if block["type"] == "tool_result" and record.role == "user":
                results.add(block["tool_use_id"])
                waiting.discard(block["tool_use_id"])
            elif block["type"] == "tool_use" and block["id"] not in results:
                waiting.add(block["id"])
        if not waiting:
            count = index
    return count


def _begun(out: Sequence[Message]) -> tuple[Message, ...]:
    """Have the user begin."""
    if out and out[0].role == "assistant":
        first: TextBlock = {"type": "text", "text": CONTINUE}
        return (Message(role="user", content=(first,)), *out)
    return tuple(out)


def _append(out: list[Message], role: str, blocks: tuple[Block, ...]) -> None:
    if not blocks:
        return
    if out and out[-1].role == role:
        out[-1] = Message(role=out[-1].role, content=(*out[-1].content, *blocks))
    else:
        out.append(Message(role="user" if role == "user" else "assistant", content=blocks))


def _words(message: Message) -> list[TextBlock | ImageBlock]:
    """Keep what a user's message may hold beside results: words, and pictures."""
    kept: list[TextBlock | ImageBlock] = []
    for block in message.content:
        if block["type"] == "image" or (block["type"] == "text" and block["text"].strip()):
            kept.append(block)
    return kept


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
