"""The subagents of a session: what the orchestrator may delegate, beside writing code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from koda_ray.actors.core import SessionCore
from koda_ray.actors.journal import ORCHESTRATOR, SessionJournal
from koda_ray.agent.delegation import Delegation, Subagent, brief
from koda_ray.agent.identity import AgentIdentity
from koda_ray.agent.loop import AgentLoop
from koda_ray.agent.spec import ModelAccess, Policy, Prompt
from koda_ray.agent.subagent_tools import subagent_tools
from koda_ray.agent.subagents import Subagents
from koda_ray.agent.toolkit import Tool, Toolkit
from koda_ray.tools.delegate import SUBAGENT_TOOLS

__all__ = ["session_subagents"]


def session_subagents(
    core: SessionCore, journal: SessionJournal, *, tools: Sequence[Tool], access: ModelAccess, policy: Policy
) -> Subagents:
    """Make what looks after a session's subagents.

    Args:
        core: The session.
        journal: Where its agents write.
        tools: The orchestrator's.
        access: What answers their requests where they name no model, and pays for them.
        policy: What bounds them: permissions and hooks are the orchestrator's, so they may do no more than it may.
    """
    delegation = Delegation(tools=SUBAGENT_TOOLS, models=(access.model,))

    def identity(agent: str) -> AgentIdentity:
        return AgentIdentity(agent=agent, session_id=core.session_id, user_id=core.user_id, epoch=core.epoch)

    def make(crew: Subagents, subagent: Subagent, toolkit: Toolkit) -> AgentLoop:
        return AgentLoop(
            identity(subagent.id),
            access=replace(access, model=subagent.model, prompt=Prompt(system=(brief(subagent),))),
            toolkit=toolkit,
            journal=crew,
            policy=replace(policy, limits=delegation.limits),
        )

    return Subagents(
        identity(ORCHESTRATOR),
        journal=journal,
        tools=tools,
        delegation=delegation,
        equip=subagent_tools,
        make=make,
    )
