"""The subagents of a session: what the orchestrator may delegate, beside writing code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from koda_ray.actors.core import SessionCore
from koda_ray.actors.journal import ORCHESTRATOR, SessionJournal
from koda_ray.agent.delegation import Delegation, Subagent, brief
from koda_ray.agent.hooks import Hook
from koda_ray.agent.loop import AgentLoop
from koda_ray.agent.permissions import Permissions
from koda_ray.agent.purse import Purse
from koda_ray.agent.subagent_tools import subagent_tools
from koda_ray.agent.subagents import Subagents
from koda_ray.agent.toolkit import Tool, Toolkit
from koda_ray.llm.base import ModelProvider
from koda_ray.tools.delegate import SUBAGENT_TOOLS

__all__ = ["session_subagents"]


def session_subagents(
    core: SessionCore,
    journal: SessionJournal,
    *,
    tools: Sequence[Tool],
    provider: ModelProvider,
    model: str,
    permissions: Callable[[], Permissions],
    purse: Purse,
    hooks: Sequence[Hook] = (),
) -> Subagents:
    """Make what looks after a session's subagents.

    Args:
        core: The session.
        journal: Where its agents write.
        tools: The orchestrator's.
        provider: Answers requests.
        model: What subagents run on.
        permissions: Says what they may do by themselves, as of now: no more than the orchestrator.
        purse: Pays for their model calls.
        hooks: Who is heard before and after their model and tool calls.
    """
    delegation = Delegation(tools=SUBAGENT_TOOLS, models=(model,))

    def make(crew: Subagents, subagent: Subagent, toolkit: Toolkit) -> AgentLoop:
        return AgentLoop(
            agent=subagent.id,
            provider=provider,
            model=subagent.model,
            system=(brief(subagent),),
            toolkit=toolkit,
            journal=crew,
            session_id=core.session_id,
            user_id=core.user_id,
            epoch=core.epoch,
            limits=delegation.limits,
            permissions=permissions,
            hooks=hooks,
            purse=purse,
        )

    return Subagents(
        journal=journal,
        root=ORCHESTRATOR,
        tools=tools,
        delegation=delegation,
        model=model,
        session_id=core.session_id,
        user_id=core.user_id,
        equip=subagent_tools,
        make=make,
    )
