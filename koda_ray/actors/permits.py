"""What a session's agents may do by themselves, from what its state says."""

from __future__ import annotations

from koda_ray.agent.permissions import Permissions, Rule
from koda_ray.sandbox.policy import PROJECT_ROOT
from koda_ray.types import NodeState

__all__ = ["permissions_of"]


def permissions_of(state: NodeState) -> Permissions:
    """Read a session's mode and rules; mode ``plan`` guards until its plan is accepted."""
    given = state.permissions
    rules = [Rule(decision=r.decision, tool=r.tool, path=r.path, arguments=r.arguments) for r in given.rules]
    mode = "auto" if given.mode == "plan" and state.plan_accepted else given.mode
    return Permissions(mode=mode, rules=rules, root=PROJECT_ROOT)
