"""A process with a pool whose agent is cancelled, killed around the commit of that. Run by `tests.agent.warm`."""

from __future__ import annotations

import asyncio
import os
import signal

# imported here, so that no life has to
import anthropic.resources.messages  # noqa: F401

from koda_ray.agent import Agent, AgentPool, tool
from koda_ray.agent.loop import LoopEvent
from koda_ray.agent.runtime import Runtime
from koda_ray.errors import Cancelled
from koda_ray.events import Envelope
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.state.json_store import JSONStore
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store

ENOUGH = "Enough of that."


def live(url: str, base_url: str, dies: str, late: str) -> None:
    """Ask ann, cancel it once it is at work, say ``late`` meanwhile, and die ``before`` or ``after`` that is stored."""
    asyncio.run(_live(url, base_url, dies, late))


def _dying(url: str, dies: str) -> Store:
    def reach(batch: Batch, when: str) -> None:
        if when == dies and any(ENOUGH in str(message.content) for message in batch.messages):
            os.kill(os.getpid(), signal.SIGKILL)

    class Sql(SqlStore):
        async def commit(self, session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
            reach(batch, "before")
            made = await super().commit(session_id, epoch, batch)
            reach(batch, "after")
            return made

    class Json(JSONStore):
        async def commit(self, session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
            reach(batch, "before")
            made = await super().commit(session_id, epoch, batch)
            reach(batch, "after")
            return made

    kind, _, path = url.partition(":")
    return Json(path) if kind == "json" else Sql(path)


async def _live(url: str, base_url: str, dies: str, late: str) -> None:
    store = _dying(url, dies)
    await store.open()
    provider = AnthropicProvider("test-key", base_url=base_url)
    begun, ending, end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def heard(_: LoopEvent) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await end.wait()

    @tool(effect="idempotent")
    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await end.wait()
        return ""

    def make(name: str, runtime: Runtime) -> Agent:
        on_event = None if late.startswith("Beside a call") else heard
        return Agent(name, [wait], runtime=runtime, on_event=on_event)

    async with AgentPool(make, runtime=Runtime(provider=provider, store=store)) as pool:
        asked = asyncio.create_task(pool.ask("ann", "Wait."))
        await begun.wait()
        cancelling = asyncio.create_task(pool.cancel("ann", ENOUGH))
        await ending.wait()
        if late:
            await pool.send("ann", late)
        end.set()
        await asyncio.wait({asked, cancelling})
        assert isinstance(asked.exception(), Cancelled)
