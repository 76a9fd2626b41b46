"""One tool call, run once: its time limit, and every way to fail turned into a result that the model can read.

Only four things get past it: a fence (another activation owns the session), a person's cancellation, a budget that
somebody has to raise first, and the end of the task or process. All else is an outcome, so that it is recorded and
never leaves a call without an answer.
"""

from __future__ import annotations

import asyncio

from koda_ray.agent.ledger import STILL_AT_WORK
from koda_ray.agent.toolkit import BoundCall, ToolCall, ToolOutcome
from koda_ray.errors import BudgetExceeded, Cancelled, Fenced, HookStopped, InvalidInput, KodaError
from koda_ray.logs import get_logger

__all__ = ["MAX_RESULT_CHARS", "MAX_SHOWN_CHARS", "run_preview", "run_tool"]

MAX_RESULT_CHARS = 60_000
"""Longest result that a model is given; about 15,000 tokens."""

MAX_SHOWN_CHARS = 600_000
"""Longest change that a person is shown."""

_BUG_CHARS = 500
_log = get_logger(__name__)


async def run_tool(bound: BoundCall, call: ToolCall) -> ToolOutcome:
    """Run a tool.

    Args:
        bound: The tool and its checked input.
        call: Who calls; its id is the idempotency key.

    Returns:
        What the tool gave back, or an error outcome for what it raised; content past `MAX_RESULT_CHARS` is cut in
        the middle.

    Raises:
        Fenced: FENCED, another activation owns the session; nothing may be recorded.
        Cancelled: CANCELLED, a person stopped the work.
        BudgetExceeded: BUDGET_EXCEEDED, what it needs first does not fit; it has changed nothing.
        HookStopped: HOOK_STOPPED, a hook ended what it had another agent do, and with it the run.
    """
    tool = bound.tool
    limit = asyncio.timeout(tool.timeout_s)
    try:
        async with limit:
            outcome = await tool.run(bound.input, call)
    except (Fenced, Cancelled, BudgetExceeded, HookStopped):
        raise
    except KodaError as error:
        retryable = error.retryable or isinstance(error, InvalidInput)
        return ToolOutcome.failure(error.code, _cut(error.message), retryable=retryable, details=dict(error.context))
    except TimeoutError as error:
        if not limit.expired():
            return _bug(call, error)
        if tool.effect == "pure":
            known = "Its result is not waited for."
        else:
            known = "It was stopped and may have done part of its work." if tool.stops else STILL_AT_WORK
        return ToolOutcome.failure(
            "TIMEOUT",
            f"{tool.name} took longer than {tool.timeout_s:g} s. {known} Look at what is there, or ask for less.",
            retryable=tool.effect == "pure",  # again would be another call, and so another effect
        )
    except Exception as error:
        return _bug(call, error)
    outcome.content = _cut(outcome.content)
    return outcome


async def run_preview(bound: BoundCall, call: ToolCall) -> str:
    """Show what a call would change; what cannot be shown is said in words, for it is no reason to run it unseen.

    Raises:
        Fenced: FENCED, another activation owns the session.
        Cancelled: CANCELLED, a person stopped the work.
        BudgetExceeded: BUDGET_EXCEEDED, what showing it needs does not fit; once it does, it can be shown.
    """
    preview = bound.tool.preview
    if preview is None:
        return ""
    try:
        async with asyncio.timeout(bound.tool.timeout_s):
            return _cut(await preview(bound.input, call), most=MAX_SHOWN_CHARS)
    except (Fenced, Cancelled, BudgetExceeded):
        raise
    except KodaError as error:
        return f"(what it would change cannot be shown: {error.message})"
    except Exception as error:
        _log.exception("preview_bug", call_id=call.id, tool=call.name, session_id=call.session_id)
        return f"(what it would change cannot be shown: {type(error).__name__})"


def _bug(call: ToolCall, error: Exception) -> ToolOutcome:
    _log.exception("tool_bug", call_id=call.id, tool=call.name, session_id=call.session_id)
    shown = f"{type(error).__name__}: {error}"[:_BUG_CHARS]
    return ToolOutcome.failure(
        "INTERNAL", f"{call.name} failed inside ({shown}). The same call will fail again.", retryable=False
    )


def _cut(text: str, *, most: int = MAX_RESULT_CHARS) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"
