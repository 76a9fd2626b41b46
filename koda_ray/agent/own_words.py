"""Words that stand in an agent's history as a user's and that no person said.

A model's API knows two roles only, so what the program itself tells an agent, and what other agents in a room say, has
the person's. Whoever asks what a person has said (are they there? how far did they let it go? what do they wish?) asks
here; whatever else speaks in their place is named here, by how its words begin.
"""

from __future__ import annotations

from typing import cast

from koda_ray.llm.base import Block
from koda_ray.state.records import MessageRecord

__all__ = [
    "CUT_OFF",
    "EMPTY",
    "HALTED",
    "OTHERS",
    "REPORTS",
    "are_a_persons",
    "count_as_a_persons",
    "is_a_persons",
    "reminder",
]

CUT_OFF = (
    "(Your last message was cut off at the output limit. Go on from exactly where it stopped, or finish in fewer "
    "words.)"
)
"""What the loop says after an answer that reached the token limit."""
EMPTY = "(Your last message was empty. Go on with what is to be done, or say in words that you are done, or why not.)"
"""What the loop says after an answer without words and calls."""
HALTED = "(Cancelled.)"
"""How words begin that tell an agent that a person cancelled what was asked before them."""
REPORTS = "(Reports of your subagents, which have ended; nobody else wrote this.)"
"""How the message begins that tells an agent what became of its subagents."""
OTHERS = "(Said by agents in the room; no person wrote this.)"
"""How words begin that a member of a room hears of others that are no people."""

_REMINDER = "(You stopped before you were done; no person wrote this.)"
_OWN = (CUT_OFF, EMPTY, HALTED, OTHERS, REPORTS, _REMINDER)


def reminder(owed: str) -> str:
    """Make what an agent is told that has stopped short.

    Args:
        owed: What is still to be done: one sentence.
    """
    return f"{_REMINDER} {owed}"


def are_a_persons(words: str) -> bool:
    """Whether words in a user's message are a person's, and neither the program's own nor another agent's."""
    return not words.startswith(_OWN)


def count_as_a_persons(words: str) -> bool:
    """Whether words stay as long as a person's do: what takes them back stays beside them."""
    return are_a_persons(words) or words.startswith(HALTED)


def is_a_persons(message: MessageRecord) -> bool:
    """Whether a message holds words of a person."""
    blocks = cast("list[Block]", message.content)
    return message.role == "user" and any(b["type"] == "text" and are_a_persons(b["text"]) for b in blocks)
