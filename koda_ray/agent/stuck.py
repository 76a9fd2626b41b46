"""Whether an agent is going in circles: the same call, with the same input, failing again and again.

Pure, over the history. A call that did change something in between is progress, and so is
anything a person says: both start the count anew, because the next try then meets a different world.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from koda_ray.llm.base import Message, ToolUseBlock
from koda_ray.state.store import Effect

__all__ = ["CUT_OFF", "repeated_failure"]

CUT_OFF = (
    "(Your last message was cut off at the output limit. Go on from exactly where it stopped, or finish in fewer "
    "words.)"
)
"""What the loop says after an answer that reached the token limit; not a person's words."""


def repeated_failure(history: Sequence[Message], effect: Callable[[str], Effect], *, limit: int) -> str | None:
    """Look for a call that failed ``limit`` times with the same input and nothing changed in between.

    Args:
        history: Messages in order; results of calls that are not among them count for nothing.
        effect: What a tool of that name may change.
        limit: How many failures are too many.

    Returns:
        A sentence for a person, or None.
    """
    failures: dict[str, int] = {}
    calls: dict[str, ToolUseBlock] = {}
    for message in history:
        for block in message.content:
            if block["type"] == "tool_use":
                calls[block["id"]] = block
            elif block["type"] == "text" and message.role == "user" and block["text"] != CUT_OFF:
                failures.clear()
            elif block["type"] == "tool_result" and (call := calls.get(block["tool_use_id"])) is not None:
                key = call["name"] + json.dumps(call["input"], sort_keys=True)
                if not block["is_error"]:
                    failures.pop(key, None)
                    if effect(call["name"]) != "pure":
                        failures.clear()
                    continue
                failures[key] = failures.get(key, 0) + 1
                if failures[key] >= limit:
                    return f"{call['name']} failed {limit} times with the same input, last with: {block['content']}"
    return None
