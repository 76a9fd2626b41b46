"""What an agent that stands alone tells whoever follows it: its words as they come, what it has said, that it is done.

What it has said, and that it is done, is stored in the transaction that makes it so: a killed process neither loses it
nor says it twice. Pieces of an answer are worthless once its message is there, so they are ephemeral, and few: the
first at once, then what came since, ten times a second at most, and what is left with the message.
"""

from __future__ import annotations

import time

from pydantic import JsonValue

from koda_ray.agent.answer import LoopEvent
from koda_ray.agent.messages import from_records, text_of, tool_uses
from koda_ray.events import NewEvent
from koda_ray.llm.base import ModelSwitched, TextDelta
from koda_ray.state.records import MessageRecord

__all__ = ["PIECE_S", "Voice"]

PIECE_S = 0.1
"""Between two pieces of an answer, in seconds."""


class Voice:
    """Makes one agent's events. It stores none of them: its loop does, with what they tell of.

    Args:
        agent: Whose.
        piece_s: Least time between two pieces of an answer, in seconds; `PIECE_S` when None.
    """

    def __init__(self, agent: str, *, piece_s: float | None = None) -> None:
        self._agent = agent
        self._piece_s = PIECE_S if piece_s is None else piece_s
        self._message_id = ""
        self._coming: list[str] = []
        self._told_chars = 0
        self._told_at = 0.0

    def begin(self, message_id: str) -> None:
        """Note that an answer begins, which becomes the message of this id."""
        self._message_id, self._coming, self._told_chars, self._told_at = message_id, [], 0, 0.0

    def heard(self, event: LoopEvent) -> list[NewEvent]:
        """Take a piece of the answer; return what is to be told now."""
        if isinstance(event, ModelSwitched):  # another model begins it anew
            self.begin(self._message_id)
        if not isinstance(event, TextDelta) or not event.text:
            return []
        self._coming.append(event.text)
        return self._piece() if time.monotonic() - self._told_at >= self._piece_s else []

    def said(self, record: MessageRecord) -> list[NewEvent]:
        """Tell what is left of the answer, and the message that it became."""
        (message,) = from_records([record])
        calls: list[JsonValue] = [call["id"] for call in tool_uses(message)]
        data: dict[str, JsonValue] = {
            "agent": self._agent,
            "role": "assistant",
            "content": text_of(message),
            "calls": calls,
        }
        return [*self._piece(), NewEvent(type="message", data=data, cause_id=record.id)]

    def done(self, kind: str, text: str = "", call_id: str | None = None) -> list[NewEvent]:
        """Tell that a run is over.

        Args:
            kind: Why, as of `koda_ray.agent.LoopOutcome`, or ``cancelled``.
            text: Its last words, or why in words.
            call_id: The call that waits for a person.
        """
        data: dict[str, JsonValue] = {"agent": self._agent, "outcome": kind, "text": text}
        if call_id is not None:
            data["callId"] = call_id
        return [NewEvent(type="done", data=data, cause_id=call_id)]

    def _piece(self) -> list[NewEvent]:
        delta = "".join(self._coming)
        if not delta:
            return []
        data: dict[str, JsonValue] = {
            "agent": self._agent,
            "messageId": self._message_id,
            "offset": self._told_chars,
            "delta": delta,
        }
        self._coming.clear()
        self._told_chars += len(delta)
        self._told_at = time.monotonic()
        return [NewEvent(type="text_chunk", data=data, cause_id=self._message_id)]
