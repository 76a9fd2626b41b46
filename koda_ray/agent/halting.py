"""A person's cancel as it is stored: what an agent was asked until then, it does not owe any more.

Where calls were open, their results say that they were cancelled. Where none was, since the model was answering or
nothing had begun, nothing in the history would tell, and a process that takes the agent up would go on with it: so the
words of `halted` end what was asked, in the transaction of the cancel. The model reads them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from koda_ray.agent.ledger import is_abandoned
from koda_ray.agent.messages import from_records, open_calls, tool_results
from koda_ray.agent.own_words import HALTED, is_a_persons
from koda_ray.llm.base import TextBlock
from koda_ray.state.records import MessageRecord, ToolCallRecord

__all__ = ["halted", "place_of_halt", "was_halted"]


def halted(reason: str) -> TextBlock:
    """Make the words by which what was under way is cancelled, and no wish forgotten; ``reason`` is a sentence."""
    return {"type": "text", "text": f"{HALTED} {reason} Do not go on with what was under way unless asked to."}


def was_halted(history: Sequence[MessageRecord], ledger: Mapping[str, ToolCallRecord]) -> bool:
    """Whether a cancel is the last that a history tells: nobody waits for the model's word on it.

    Args:
        history: The agent's messages in order.
        ledger: Tool calls by id.
    """
    if not history or history[-1].role != "user" or open_calls(history):
        return False
    (last,) = from_records(history[-1:])
    return any(is_abandoned(ledger.get(block["tool_use_id"])) for block in tool_results(last)) or any(
        block["type"] == "text" and block["text"].startswith(HALTED) for block in last.content
    )


def place_of_halt(history: Sequence[MessageRecord], begun: int | None) -> int | None:
    """Return the position of a cancel: where it was begun, so that what a person has said since comes after it.

    Args:
        history: The agent's messages in order, now that its work has ended.
        begun: A position that was reserved when the cancel was begun.

    Returns:
        None for the end, also where the work that was cancelled has told more by then.
    """
    if begun is None or any(message.position > begun and not is_a_persons(message) for message in history):
        return None
    return begun
