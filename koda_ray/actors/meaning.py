"""What a person's message means where the session stands: it begins something, answers, or is to be different.

Whoever hears a command asks this, so it needs nothing of what agents are made of.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Literal

from koda_ray import phases
from koda_ray.commands import Command, RequestChanges, Say
from koda_ray.types import NodeState

__all__ = ["Meant", "judged", "meant"]

Meant = Literal["prompt", "answer", "change"]


def judged(command: Command, state: NodeState, at: datetime) -> tuple[Command, NodeState]:
    """Say what a command leads to, and of a message whether agents at work hear it later: it stands in the state then.

    So a message is what it is said to be when it is stored, or is not stored.

    Raises:
        KodaError: The phase does not take it.
    """
    after, _ = phases.apply(state, command, at)
    if isinstance(command, Say):
        command = replace(command, waits=len(after.unread) > len(state.unread))
    return command, after


def meant(command: Command, state: NodeState) -> Meant | None:
    """Return what a message or a change is, as `judged`, to the state that it is said to; None for other commands."""
    match command:
        case Say(waits=False) if state.paused is not None or state.phase == "question":
            return "answer"
        case Say(waits=False) if state.phase == "idle":
            return "prompt"
        case Say() | RequestChanges():
            return "change"
        case _:
            return None
