"""A process with a pool of agents that charge one item each, killed at an instant. Run by `tests.agent.warm`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

# imported here, so that no life has to
import anthropic.resources.messages  # noqa: F401

from koda_ray.agent import Agent, Runtime
from koda_ray.agent.pool import AgentPool, PoolBounds
from koda_ray.llm.anthropic import AnthropicProvider
from tests.agent.crew import world_tools
from tests.agent.crew_victim import ticking
from tests.agent.outside import Outside
from tests.agent.warm import Clock
from tests.llm.server import Answer, Call, reply, results, texts

NAMES = ("ann", "bob", "cid", "dan")


def clerk(request: dict[str, Any]) -> Answer:
    """Charge what was asked for, and look where nobody knows whether it was charged."""
    item = texts(request)[0].removeprefix("Charge ").removesuffix(".")
    known = False
    done = results(request)
    for each in done:
        known = known or (each["name"] == "charge" and not each["is_error"])
        known = known or (each["name"] == "charged" and item in json.loads(each["content"]))
    if known:
        return reply("Charged.")
    return Call("charged") if done and done[-1]["name"] == "charge" else Call("charge", {"item": item})


def live(url: str, outside: str, base_url: str, dies_at: int, how: str) -> None:
    """Live until all is done; ``dies_at`` -1 is as soon as everything has been said, 0 never."""
    asyncio.run(_live(url, Path(outside), base_url, dies_at, how))


async def _live(url: str, outside: Path, base_url: str, dies_at: int, how: str) -> None:
    clock = Clock(dies_at)
    store = ticking(url, clock)
    await store.open()
    provider = AnthropicProvider("test-key", base_url=base_url)
    tools = world_tools(Outside(outside), clock.tick)

    def make(name: str, runtime: Runtime) -> Agent:
        return Agent(name, tools, runtime=runtime)

    async with AgentPool(
        make, runtime=Runtime(provider=provider, store=store), bounds=PoolBounds(open=3, running=2)
    ) as pool:
        if how == "send":
            for name in NAMES:
                await pool.send(name, f"Charge {name}.", key="job")
            if dies_at == -1:
                os.kill(os.getpid(), signal.SIGKILL)
        await pool.rest()
    await provider.close()
    await store.close()
