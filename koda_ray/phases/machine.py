"""The phase machine's one transition, and who makes it for which command."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from koda_ray.commands import (
    Accept,
    Allow,
    Answer,
    Approve,
    Ask,
    AskAgreement,
    Cancel,
    Closed,
    Command,
    Deliver,
    EditPlan,
    Fail,
    Finished,
    Heed,
    Pause,
    Previewed,
    Propose,
    PutBack,
    Refuse,
    Reject,
    Render,
    RequestChanges,
    Retry,
    Say,
    SetPermissions,
    SetTodos,
    SetTodoStatus,
    Start,
    TakeBack,
    Think,
    Wrote,
)
from koda_ray.phases import agents, interruptions, people, plans
from koda_ray.phases.parts import Transition, announce, refuse
from koda_ray.types import NodeState

__all__ = ["apply"]


_ELSEWHERE = (Start, Answer, Accept, Reject, RequestChanges, EditPlan, Retry, Render)
"""What a person does not say while a tool call waits for agreement."""

_HANDLERS: dict[type, object] = {
    Start: people.start,
    Answer: people.answer,
    Accept: people.accept,
    Reject: people.reject,
    RequestChanges: people.request_changes,
    EditPlan: plans.edit_plan,
    Say: people.say,
    TakeBack: people.take_back,
    Cancel: interruptions.cancel,
    Retry: people.retry,
    Render: people.render,
    Approve: interruptions.decide,
    Refuse: interruptions.decide,
    SetPermissions: people.set_permissions,
    AskAgreement: interruptions.ask_agreement,
    PutBack: interruptions.put_back,
    Ask: agents.ask,
    Propose: agents.propose,
    SetTodos: agents.set_todos,
    SetTodoStatus: agents.set_todo_status,
    Think: agents.think,
    Wrote: agents.wrote,
    Heed: agents.heed,
    Deliver: agents.deliver,
    Previewed: agents.previewed,
    Closed: agents.closed,
    Finished: agents.finished,
    Fail: interruptions.fail,
    Pause: interruptions.pause,
    Allow: interruptions.allow,
}


def apply(state: NodeState, command: Command, at: datetime) -> Transition:
    """Move a state by one command.

    Args:
        state: Any valid state.
        command: What was said.
        at: When, aware, in UTC.

    Returns:
        The new state, and what its owner must do: Emit and ApprovalChange with the state's own transaction, the others
        after it.

    Raises:
        InvalidTransition: The phase does not take the command; the message says what it does take.
        InvalidInput: The command's value is empty, too long or unknown.
    """
    if state.approval is not None and isinstance(command, _ELSEWHERE):
        words = f"{state.approval.name} waits for your agreement: approve it or refuse it first, or cancel"
        raise refuse(state, type(command).__name__.lower(), words)
    handler = cast("Callable[[NodeState, Any, datetime], Transition]", _HANDLERS[type(command)])
    new, effects = handler(state, command, at)
    if new == state and not effects:
        return state, ()
    if new.owes is not None and new.stopped is not None:
        new = new.model_copy(update={"stopped": None})
    since = (state.owed_since if new.owes == state.owes else at) if new.owes else None
    new = new.model_copy(update={"updated_at": at, "owed_since": since})
    moved = (new.phase, new.owes, new.unread) != (state.phase, state.owes, state.unread)
    if moved or isinstance(command, PutBack | EditPlan):
        effects = (*effects, announce(new))
    return new, effects
