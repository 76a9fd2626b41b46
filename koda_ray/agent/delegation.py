"""What an agent may hand to subagents, and how each of those stands in the store; pure.

A subagent is a piece of work, so its row is a bead of the session that its parent has: what becomes of the session
(a fence, a removal) becomes of it, and what a parent does and what it starts are one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from koda_ray.agent.limits import Limits
from koda_ray.errors import InvalidInput
from koda_ray.state.records import BeadRecord
from koda_ray.types import Model

__all__ = ["Delegation", "Subagent", "SubagentStatus", "brief", "subagents_among"]

SubagentStatus = Literal["running", "done", "stopped", "failed", "cancelled"]

_KEY = "subagent"
_FIRST_POSITION = 1000  # todos come first in a session's list of beads


@dataclass(frozen=True, kw_only=True)
class Delegation:
    """What an agent may delegate, and how much.

    Args:
        tools: Names of its own tools that it may hand on; all of them when None.
        models: What a subagent may run on, the first by default; what the agent itself runs on when empty.
        limits: Bounds of one subagent's run.
        at_once: Subagents that work at the same time, of one depth; others wait their turn.
        unfinished: Subagents that may be there unfinished, of all depths together.
        total: Subagents that may be spawned until a person speaks again, of all depths together.
        depth: 1 when subagents have none of their own, 2 when those may have some, and so on.

    Raises:
        InvalidInput: A bound is below one.
    """

    tools: tuple[str, ...] | None = None
    models: tuple[str, ...] = ()
    limits: Limits = field(default_factory=lambda: Limits(turns=40, tool_calls=120))
    at_once: int = 4
    unfinished: int = 8
    total: int = 32
    depth: int = 1

    def __post_init__(self) -> None:
        for name in ("at_once", "unfinished", "total", "depth"):
            if (value := getattr(self, name)) < 1:
                raise InvalidInput(f"{name}={value} lets no subagent work: give 1 or more, or no Delegation at all")

    def on(self, model: str) -> Delegation:
        """Return it with a model that subagents run on where it names none."""
        return self if self.models else replace(self, models=(model,))


class Subagent(Model):
    """One subagent. ``result`` is its last words, or why it ended without; ``told`` says that its parent has read it.

    ``parent`` is the agent that spawned it, ``depth`` 1 for those of the agent that a person talks to; ``delegates``
    says that it may spawn some of its own.
    """

    id: str
    parent: str
    name: str
    task: str
    tools: tuple[str, ...]
    model: str
    depth: int
    delegates: bool = False
    status: SubagentStatus = "running"
    result: str = ""
    code: str | None = None
    told: bool = False
    place: int
    created_at: datetime
    ended_at: datetime | None = None

    def bead(self, session_id: str, user_id: str) -> BeadRecord:
        """Make its row."""
        return BeadRecord(
            id=f"{session_id}:{self.id}",
            session_id=session_id,
            user_id=user_id,
            type="task",
            title=self.name,
            status="in_progress" if self.status == "running" else "closed",
            position=_FIRST_POSITION + self.place,
            data={_KEY: self.model_dump(mode="json", by_alias=True)},
            created_at=self.created_at,
            closed_at=self.ended_at,
        )


def subagents_among(beads: Iterable[BeadRecord]) -> dict[str, Subagent]:
    """Read the subagents among a session's beads, by id and in the order in which they were spawned."""
    found = [Subagent.model_validate(bead.data[_KEY]) for bead in beads if _KEY in bead.data]
    return {each.id: each for each in sorted(found, key=lambda each: each.place)}


def brief(subagent: Subagent) -> str:
    """Tell a subagent who it is; equal for all of one name, so that a prompt cache knows it."""
    return (
        f"You are {subagent.name}, a subagent. The agent that asks you sees nothing of what you do, only your last "
        "message, word for word: it must hold the whole result, and what you could not find out or do. Nobody "
        "answers questions: where the task leaves something open, choose, and say what you chose. Use only the tools "
        "that you have. You may be continued after an interruption: look at what is there before you do it again."
    )
