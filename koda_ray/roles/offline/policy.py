"""What the orchestrator does next: a pure function from the session's state and the conversation to one turn.

It keeps nothing between calls, so a session can be stopped anywhere and go on in another process: todos that are done
stay done, and a call whose result is in the conversation is not made again.
"""

from __future__ import annotations

from collections.abc import Sequence

from koda_ray.llm.base import Message
from koda_ray.roles.offline.conflict import conflicts_in_change
from koda_ray.roles.offline.conversation import PolicyCalls, SeenSession, Turn, exchanges, last_stop, read_state
from koda_ray.roles.offline.execution import execute
from koda_ray.roles.offline.failure import failed_too_often, why
from koda_ray.roles.offline.given import parsed
from koda_ray.roles.offline.language import said
from koda_ray.roles.offline.question import ask_instead, ask_style, propose_plan
from koda_ray.roles.offline.understand import Said, understand

__all__ = ["next_turn"]


def next_turn(messages: Sequence[Message], system: Sequence[str] = ()) -> Turn:
    """Decide the next assistant message of the orchestrator.

    Args:
        messages: The conversation; the last user message holds a ``<state>`` block.
        system: The instructions; the last part may be a ``<session>`` block.

    Returns:
        Tools to run, or words alone where nothing is left to do.
    """
    view = read_state(messages, system)
    past = exchanges(messages)
    calls = PolicyCalls(messages)
    approvals = [e for e in past if e.call.name == "request_approval" and e.result is not None]
    course = understand(
        Said(
            prompt=view.prompt,
            answers=view.answers,
            options=view.options,
            feedback=view.feedback,
            pointed=view.pointed,
            assets=view.assets,
        )
    )
    about_plan = bool(approvals) and approvals[-1].call.input.get("type") == "plan"
    status = parsed(approvals[-1].result or "").get("status") if approvals else None
    if view.plan_accepted or (about_plan and status == "accepted"):
        return execute(view, course, past, last_stop(messages), calls)
    if failed_too_often(past, "request_approval", last_stop(messages)):
        return Turn(said("failed.request", why=why(past)))
    brief = course.brief
    if about_plan and status == "rejected":
        ask_style(calls, "rejected")
    elif brief.impossible is not None:
        ask_instead(calls, brief.impossible)
    elif brief.style_heard == "unknown" and not approvals and not view.answers:
        ask_style(calls, "style")
    else:
        if status == "changes":
            _tell_conflicts(view, calls)
        propose_plan(calls, brief, view.answers)
    return calls.turn()


def _tell_conflicts(view: SeenSession, calls: PolicyCalls) -> None:
    conflict = " ".join(c.reading for c in conflicts_in_change(view.feedback[-1] if view.feedback else ""))
    if conflict:
        calls.add("send_message", content=conflict)
