"""Agents that go on where they were: `Agent` by itself, many in an `AgentPool`, several in a `Room`; and `tool`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koda_ray.agent.alone import Agent
    from koda_ray.agent.answer import LoopEvent
    from koda_ray.agent.delegation import Delegation
    from koda_ray.agent.functions import tool
    from koda_ray.agent.hooks import Hook, Stop
    from koda_ray.agent.limits import Limits
    from koda_ray.agent.named_hooks import HookedSession
    from koda_ray.agent.permissions import Permissions, Rule
    from koda_ray.agent.pool import AgentPool, PoolBounds
    from koda_ray.agent.room import Member, Room
    from koda_ray.agent.runtime import Runtime
    from koda_ray.agent.spec import Policy
    from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
    from koda_ray.llm.base import TextDelta
    from koda_ray.types import Budget

__all__ = [
    "Agent",
    "AgentPool",
    "Budget",
    "Delegation",
    "Hook",
    "HookedSession",
    "Limits",
    "LoopEvent",
    "Member",
    "Permissions",
    "Policy",
    "PoolBounds",
    "Room",
    "Rule",
    "Runtime",
    "Stop",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolOutcome",
    "tool",
]

_HOMES = {
    "Agent": "agent.alone",
    "AgentPool": "agent.pool",
    "Budget": "types",
    "Delegation": "agent.delegation",
    "Hook": "agent.hooks",
    "HookedSession": "agent.named_hooks",
    "Limits": "agent.limits",
    "LoopEvent": "agent.answer",
    "Member": "agent.room",
    "Permissions": "agent.permissions",
    "Policy": "agent.spec",
    "PoolBounds": "agent.pool",
    "Room": "agent.room",
    "Rule": "agent.permissions",
    "Runtime": "agent.runtime",
    "Stop": "agent.hooks",
    "TextDelta": "llm.base",
    "Tool": "agent.toolkit",
    "ToolCall": "agent.toolkit",
    "ToolOutcome": "agent.toolkit",
    "tool": "agent.functions",
}


def __getattr__(name: str) -> object:
    # looked up when asked for: who needs one module of this package does not load them all
    if name in _HOMES:
        return getattr(importlib.import_module(f"koda_ray.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
