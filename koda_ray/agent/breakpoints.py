"""Where an agent stands: eight breakpoints, the transitions between them, and how each is read back after a crash.

The machine is pure. What a crash is read back from is the history and the ledger, which are written in the same
transactions as the work, so that the two cannot disagree. Beside them each entry is told by a ``breakpoint_change``,
in the commit that is there before a model is asked or a tool runs.

    breakpoint          durable before its action begins                   read back after a crash as
    READY               the assistant's last message calls no tool         READY
                        a person's cancel, in its transaction              READY
    PRE_MODEL           the last message is the user's, nothing is open    PRE_MODEL
    STREAMING_MODEL     its entry, with what is reserved for the answer    PRE_MODEL: a half answer is never stored
    TOOL_PENDING        the assistant's message with its calls             TOOL_PENDING
    AWAITING_APPROVAL   the call as waiting, with what it asks             AWAITING_APPROVAL
    PRE_TOOL            its entry, with START: it does nothing before      TOOL_PENDING until then
    TOOL_EXECUTING      START in the ledger                                TOOL_EXECUTING
    POST_TOOL           outcome, result and the tool's own changes         TOOL_PENDING or PRE_MODEL
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from koda_ray.agent.halting import was_halted
from koda_ray.agent.messages import open_calls
from koda_ray.errors import InvalidTransition
from koda_ray.state.records import MessageRecord, ToolCallRecord

__all__ = ["TRANSITIONS", "Breakpoint", "advance", "derive"]


class Breakpoint(StrEnum):
    """A point of the loop at which being killed is safe."""

    READY = "READY"
    PRE_MODEL = "PRE_MODEL"
    STREAMING_MODEL = "STREAMING_MODEL"
    TOOL_PENDING = "TOOL_PENDING"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    PRE_TOOL = "PRE_TOOL"
    TOOL_EXECUTING = "TOOL_EXECUTING"
    POST_TOOL = "POST_TOOL"


_B = Breakpoint
TRANSITIONS: Mapping[Breakpoint, frozenset[Breakpoint]] = {
    _B.READY: frozenset({_B.PRE_MODEL, _B.TOOL_PENDING}),
    _B.PRE_MODEL: frozenset({_B.STREAMING_MODEL, _B.READY}),
    # back to PRE_MODEL: the stream broke, or somebody spoke while it ran
    _B.STREAMING_MODEL: frozenset({_B.PRE_MODEL, _B.TOOL_PENDING, _B.READY}),
    # straight to POST_TOOL: refused input, a sealed call, an outcome that was recorded before a crash
    _B.TOOL_PENDING: frozenset({_B.PRE_TOOL, _B.AWAITING_APPROVAL, _B.POST_TOOL, _B.READY}),
    # back to TOOL_PENDING: another run, and it waits still or was answered
    _B.AWAITING_APPROVAL: frozenset({_B.PRE_TOOL, _B.POST_TOOL, _B.TOOL_PENDING}),
    _B.PRE_TOOL: frozenset({_B.TOOL_EXECUTING}),
    # back to TOOL_PENDING: found started after a crash, and decided about again
    _B.TOOL_EXECUTING: frozenset({_B.POST_TOOL, _B.AWAITING_APPROVAL, _B.TOOL_PENDING}),
    _B.POST_TOOL: frozenset({_B.TOOL_PENDING, _B.PRE_MODEL, _B.READY}),
}


def advance(at: Breakpoint, to: Breakpoint) -> Breakpoint:
    """Move to another breakpoint.

    Raises:
        InvalidTransition: INVALID_TRANSITION, the table has no such transition; a bug of the caller.
    """
    if to not in TRANSITIONS[at]:
        allowed = ", ".join(sorted(TRANSITIONS[at]))
        raise InvalidTransition(f"the agent cannot go from {at} to {to}; from there it goes to {allowed}")
    return to


def derive(history: Sequence[MessageRecord], ledger: Mapping[str, ToolCallRecord]) -> Breakpoint:
    """Read the breakpoint from what is stored.

    Args:
        history: The agent's messages in order.
        ledger: Tool calls by id.
    """
    open_ = open_calls(history)
    if open_:
        record = ledger.get(open_[0].block["id"])
        if record is None or record.status in ("approved", "succeeded", "failed", "interrupted"):
            return Breakpoint.TOOL_PENDING
        return Breakpoint.AWAITING_APPROVAL if record.status == "waiting" else Breakpoint.TOOL_EXECUTING
    if history and history[-1].role == "user" and not was_halted(history, ledger):
        return Breakpoint.PRE_MODEL
    return Breakpoint.READY
