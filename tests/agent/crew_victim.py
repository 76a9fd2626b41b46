"""A process that does the job of `tests.agent.crew` and is killed at an instant: before or after any commit, in a tool,
or between two pieces of an answer. Run by `tests.agent.warm`."""

from __future__ import annotations

import asyncio
from pathlib import Path

# imported here, so that no life has to
import anthropic.resources.messages  # noqa: F401

from koda_ray.agent import Agent, Runtime
from koda_ray.agent.delegation import Delegation
from koda_ray.events import Envelope
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.state.json_store import JSONStore
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store
from tests.agent.crew import world_tools
from tests.agent.outside import Outside
from tests.agent.warm import Clock


def ticking(url: str, clock: Clock) -> Store:
    """Make a store whose commits are instants."""

    class Sql(SqlStore):
        async def commit(self, session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
            clock.tick("before commit")
            made = await super().commit(session_id, epoch, batch)
            clock.tick("after commit")
            return made

    class Json(JSONStore):
        async def commit(self, session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
            clock.tick("before commit")
            made = await super().commit(session_id, epoch, batch)
            clock.tick("after commit")
            return made

    kind, _, path = url.partition(":")
    return Json(path) if kind == "json" else Sql(path)


def live(url: str, outside: str, base_url: str, dies_at: int, report: str) -> None:
    asyncio.run(_live(url, Path(outside), base_url, Clock(dies_at), Path(report)))


async def _live(url: str, outside: Path, base_url: str, clock: Clock, report: Path) -> None:
    store = ticking(url, clock)
    await store.open()
    provider = AnthropicProvider("test-key", base_url=base_url)
    tools = world_tools(Outside(outside), clock.tick)
    async with Agent("lead", tools, runtime=Runtime(provider=provider, store=store), subagents=Delegation()) as agent:
        outcome = await agent.run("Charge a and b.", key="job")
    assert outcome.text == "a is charged; b is charged too.", outcome
    await provider.close()
    await store.close()
    report.write_text(str(clock.now))
