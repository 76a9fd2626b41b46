"""What a person said that no agent has read yet, and taking it back: then it is as if it had never been said."""

from __future__ import annotations

from datetime import datetime

from koda_ray.commands import Emit, Withdraw
from koda_ray.errors import InvalidTransition
from koda_ray.phases.parts import Transition
from koda_ray.types import NodeState, Unread

__all__ = ["already_read", "no_more_than_unread", "withdraw", "without_withdrawn"]


def already_read(message_id: str) -> InvalidTransition:
    """Refuse to take back what agents act upon already."""
    return InvalidTransition(
        f"message {message_id} was read already; say what should be different instead, or cancel the work",
        code="MESSAGE_READ",
        context={"message_id": message_id},
    )


def withdraw(state: NodeState, command: Withdraw, at: datetime) -> Transition:
    """Take a message back; what was taken back before stays so."""
    if command.id in state.withdrawn:
        return state, ()
    taken = next((each for each in state.unread if each.id == command.id), None)
    if taken is None:
        raise already_read(command.id)
    new = _without(state, taken).model_copy(update={"withdrawn": (*state.withdrawn, command.id)})
    return new, (Emit("message_withdrawn", (("id", command.id),)),)


def no_more_than_unread(state: NodeState) -> NodeState:
    """Leave none among the unread that agents have been told."""
    unread = tuple(each for each in state.unread if each.change > state.feedback_seen)
    return state if unread == state.unread else state.model_copy(update={"unread": unread})


def without_withdrawn(past: NodeState, now_is: NodeState) -> NodeState:
    """Leave out of an earlier state what was taken back since, and have nothing else of it to be taken back."""
    while (taken := next((each for each in past.unread if each.id in now_is.withdrawn), None)) is not None:
        past = _without(past, taken)
    return past.model_copy(update={"unread": (), "withdrawn": now_is.withdrawn})


def _without(state: NodeState, taken: Unread) -> NodeState:
    """Leave a message out: those after it, which are unread as well, move up."""

    def moved(change: int) -> int:
        return change - 1 if change > taken.change else change

    place = taken.change - 1
    update: dict[str, object] = {
        "feedback": (*state.feedback[:place], *state.feedback[place + 1 :]),
        "pointed": tuple(
            each.model_copy(update={"change": moved(each.change)})
            for each in state.pointed
            if each.change != taken.change
        ),
        "unread": tuple(
            each.model_copy(update={"change": moved(each.change)}) for each in state.unread if each != taken
        ),
        "answers": tuple(
            each.model_copy(update={"after_changes": moved(each.after_changes + 1) - 1}) for each in state.answers
        ),
    }
    return state.model_copy(update=update)
