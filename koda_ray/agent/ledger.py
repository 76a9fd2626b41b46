"""The ledger of tool calls: START before a tool runs, its outcome after, and what to do about a call found half done.

Pure functions over rows. Two promises rest on them: a side effect never happens twice because of a crash, and an
outcome that was recorded is always the one the model reads. The loop writes each row in one transaction with the
message that belongs to it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, cast

from pydantic import JsonValue

from koda_ray.agent.toolkit import ToolOutcome
from koda_ray.llm.base import ToolResultBlock, ToolUseBlock
from koda_ray.state.records import MessageRecord, SideEffect, ToolCallRecord

__all__ = [
    "STILL_AT_WORK",
    "OpenCall",
    "Step",
    "abandoned",
    "approved",
    "deaths",
    "done_so_far",
    "interrupted_content",
    "is_abandoned",
    "is_interrupted",
    "kept",
    "next_step",
    "part_done",
    "recorded_result",
    "refused",
    "result_block",
    "sealed",
    "settled",
    "started",
    "stopped",
    "waiting",
    "waiting_again",
    "wanted",
]

_STOPS = "stops"
STILL_AT_WORK = "It could not be stopped: it may still be at work, and may yet do all of it."
"""What is known of a call that is no longer waited for, and whose work goes on without its task."""

Step = Literal["run", "ask", "seal", "use", "wait"]
"""What a call without a result needs: to run, a person's leave to run once more, to be sealed, its recorded outcome
used, or a person's answer."""


def next_step(record: ToolCallRecord | None, effect_now: SideEffect, *, max_attempts: int) -> Step:
    """Decide about a call that has no result in the history.

    Args:
        record: Its row, or None when it never started.
        effect_now: What the tool declares today; the stricter of this and the row's counts.
        max_attempts: Deaths of its process after which a call is given up, where it changes nothing; a run that was
            stopped in good order is none.
            One that is done once however often it runs is never closed by itself: the model would make the same call
            again under another id, which is another effect.
    """
    if record is None or record.status == "approved":
        return "run"
    if record.status == "waiting":
        return "wait"
    if record.status != "started":
        return "use"
    effects = (record.effect, effect_now)
    if "unsafe" in effects:
        return "seal"
    if deaths(record) < max_attempts:
        return "run"
    return "ask" if "idempotent" in effects else "seal"


@dataclass(frozen=True, kw_only=True)
class OpenCall:
    """A call without a result, and the assistant's message that holds it."""

    message: MessageRecord
    block: ToolUseBlock


def started(
    call: OpenCall,
    *,
    name: str,
    effect: SideEffect,
    attempt: int,
    at: datetime,
    given: dict[str, JsonValue] | None = None,
) -> ToolCallRecord:
    """Make the row that must be stored before the tool runs.

    Args:
        call: The call.
        name: The tool's name; what the block asks for where there is no such tool.
        effect: What the tool declares.
        attempt: 1 for the first; 0 for a call that is refused without running.
        at: The present time.
        given: What the tool gets; what the model sent when None.
    """
    message, block = call.message, call.block
    return ToolCallRecord(
        id=block["id"],
        session_id=message.session_id,
        user_id=message.user_id,
        message_id=message.id,
        name=name,
        input=block["input"] if given is None else given,
        effect=effect,
        status="started",
        attempt=attempt,
        result=None,
        started_at=at,
    )


def settled(record: ToolCallRecord, outcome: ToolOutcome, *, at: datetime) -> ToolCallRecord:
    """Record an outcome."""
    return replace(record, status="failed" if outcome.is_error else "succeeded", result=_result(outcome), ended_at=at)


def refused(call: OpenCall, outcome: ToolOutcome, *, at: datetime) -> ToolCallRecord:
    """Record a call that was answered without running anything: unknown tool, input that does not fit."""
    row = started(call, name=call.block["name"], effect="pure", attempt=0, at=at)
    return settled(row, outcome, at=at)


def waiting(record: ToolCallRecord, outcome: ToolOutcome) -> ToolCallRecord:
    """Record that the call waits for a person."""
    return replace(record, status="waiting", result=_result(outcome))


def approved(record: ToolCallRecord, given: dict[str, JsonValue]) -> ToolCallRecord:
    """Record that a person lets the call run, with ``given`` for its input."""
    return replace(record, status="approved", input=given)


def waiting_again(record: ToolCallRecord) -> ToolCallRecord:
    """Record that a started call waits because what it needs has to be allowed first: that was no attempt at it."""
    return replace(record, status="approved", attempt=max(0, record.attempt - 1))


def stopped(record: ToolCallRecord) -> ToolCallRecord:
    """Record that a started call was stopped in good order, as a program is that is closed: its process lived on."""
    return replace(record, result={**kept(record), _STOPS: _stops(record) + 1})


def deaths(record: ToolCallRecord) -> int:
    """Count the starts of a call that has no outcome which ended with their process."""
    return record.attempt - _stops(record)


def kept(record: ToolCallRecord) -> dict[str, JsonValue]:
    """Return what a row without an outcome keeps until the call is over, also where it is cut off and begun again.

    That is what a person has agreed to in its middle, and how often it was stopped.
    """
    result = record.result if isinstance(record.result, dict) else {}
    return {key: result[key] for key in ("approval", _STOPS) if key in result and (key == _STOPS or wanted(record))}


def _stops(record: ToolCallRecord) -> int:
    result = record.result
    return cast("int", result.get(_STOPS, 0)) if isinstance(result, dict) and recorded_result(record) is None else 0


def sealed(record: ToolCallRecord, *, at: datetime) -> ToolCallRecord:
    """Close a call that was cut off and must not run again, saying what is known and what is not.

    Raises:
        ValueError: An outcome was recorded; sealing it would lose what happened.
    """
    if record.status not in ("started", "interrupted"):
        raise ValueError(f"call {record.id} is {record.status}; only a started call can be sealed")
    outcome = ToolOutcome(content=interrupted_content(record.name, record), is_error=True)
    return replace(record, status="interrupted", result=_result(outcome), ended_at=at)


def wanted(row: ToolCallRecord) -> str:
    """Return the key of what a call wants agreed to in its middle, or had agreed to; empty for nothing."""
    return _asked(row, "key")


def done_so_far(row: ToolCallRecord) -> str:
    """Return what a call had done when it asked for agreement in its middle, for the model; empty for nothing."""
    return _asked(row, "done")


def _asked(row: ToolCallRecord, name: str) -> str:
    if not isinstance(row.result, dict) or "approval" not in row.result:
        return ""
    kept = cast("dict[str, dict[str, dict[str, JsonValue]]]", row.result)
    return str(kept["approval"]["payload"].get(name, ""))


def part_done(record: ToolCallRecord | None) -> bool:
    """Whether a call that waits, or may run again, had begun before."""
    return record is not None and (record.attempt > 0 or wanted(record) != "")


def abandoned(
    call: OpenCall,
    record: ToolCallRecord | None,
    reason: str,
    *,
    at: datetime,
    stops: bool = True,
) -> ToolCallRecord:
    """Close a call that a person no longer wants; a recorded outcome stays what it is.

    Args:
        call: The call.
        record: Its row, if it has one.
        reason: Why, for the model.
        at: The present time.
        stops: Whether the end of its task was the end of its work.
    """
    if recorded_result(record) is not None and record is not None:
        return record
    if record is None:
        record = started(call, name=call.block["name"], effect="pure", attempt=0, at=at)
        known = "It had not begun."
    elif record.status == "waiting" and not part_done(record):
        known = "Nobody answered it."
    elif record.status == "approved" and not part_done(record):
        known = "It had not begun."
    elif stops or record.effect == "pure" or record.status in ("waiting", "approved"):
        known = "It had begun and may have done part of its work."
    else:
        known = STILL_AT_WORK
    if done := done_so_far(record):
        known = f"{known} {done}"
    outcome = ToolOutcome.failure("CANCELLED", f"{reason} {known}", retryable=False)
    return replace(record, status="interrupted", result=_result(outcome), ended_at=at)


def is_abandoned(record: ToolCallRecord | None) -> bool:
    """Whether a row was closed by `abandoned`."""
    if record is None or record.status != "interrupted":
        return False
    content, _ = recorded_result(record) or ("", True)
    return content.startswith('{"error": {"code": "CANCELLED", ')


def interrupted_content(name: str, record: ToolCallRecord | None) -> str:
    """Tell the model about a call whose outcome nobody knows."""
    if record is None:
        known = f"No record of a start or an outcome of this call of {name} exists."
    else:
        known = (
            f"The process ended while {name} was running (attempt {record.attempt}, started "
            f"{record.started_at.isoformat(timespec='seconds')}); it was not run again."
        )
    message = (
        f"{known} It may have done all, part or none of its work. Look at what is there before deciding whether to "
        "call it again."
    )
    again = record is not None and record.effect == "pure"
    error: dict[str, JsonValue] = {"code": "INTERRUPTED", "message": message, "retryable": again}
    return json.dumps({"error": error}, ensure_ascii=False)


def is_interrupted(content: str) -> bool:
    """Whether a result says what `interrupted_content` says: nothing that an agent did came to this."""
    return content.startswith('{"error": {"code": "INTERRUPTED", ')


def recorded_result(record: ToolCallRecord | None) -> tuple[str, bool] | None:
    """Read the outcome of a row: content and whether it is an error; None while there is none."""
    if record is None or record.status in ("waiting", "approved", "started"):
        return None
    result = record.result
    if isinstance(result, dict) and isinstance(content := result.get("content"), str):
        return content, result.get("isError") is True
    return json.dumps(result, ensure_ascii=False), record.status != "succeeded"


def result_block(call_id: str, content: str, *, is_error: bool) -> ToolResultBlock:
    """Make the block that answers a call."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}


def _result(outcome: ToolOutcome) -> JsonValue:
    return {"content": outcome.content, "isError": outcome.is_error, "retryable": outcome.retryable}
