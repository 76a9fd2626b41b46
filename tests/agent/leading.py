"""An agent that may delegate, with a function in the place of every model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from koda_ray.agent import Agent, Delegation, Policy, Runtime
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.state.store import Store
from tests.llm.server import Answer, ModelServer, ScriptedModel

__all__ = ["Json", "lead"]

Json = dict[str, Any]


@asynccontextmanager
async def lead(
    store: Store,
    model: Callable[[Json], Answer],
    tools: Any = (),
    *,
    subagents: Delegation | None = None,
    user: str = "local",
    **policy: Any,
) -> AsyncIterator[tuple[Agent, ModelServer]]:
    """An agent that may delegate, with a function in the place of every model."""
    with ModelServer(ScriptedModel(model)) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        async with Agent(
            "lead",
            tools,
            model="big",
            runtime=Runtime(provider=provider, store=store, user=user),
            policy=Policy(**policy),
            subagents=subagents or Delegation(),
        ) as agent:
            yield agent, server
        await provider.close()
