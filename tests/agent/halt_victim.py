"""A process with a pool whose agent is cancelled, killed around the commit of that. Run by `tests.agent.warm`."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

# imported here, so that no life has to
import anthropic.resources.messages  # noqa: F401

from koda_ray.agent import Agent, AgentPool
from koda_ray.agent.runtime import Runtime
from koda_ray.errors import Cancelled
from koda_ray.events import Envelope
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.state.records import ApprovalRecord, Batch
from koda_ray.state.store import Store
from koda_ray.state.stores import store_at
from tests.agent.lingering import Lingering

__all__ = ["ENOUGH", "live", "store_of"]

ENOUGH = "Enough of that."


def live(url: str, base_url: str, dies: str, late: str) -> None:
    """Ask ann, cancel it once it is at work, say ``late`` meanwhile, and die ``before`` or ``after`` that is stored.

    To die ``opened`` is to die after, where ann was only just opened and had not begun.
    """
    asyncio.run(_opened(url, base_url, late) if dies == "opened" else _at_work(url, base_url, dies, late))


def store_of(url: str) -> Store:
    """Name the store of such a process."""
    kind, _, path = url.partition(":")
    return store_at(url if kind == "json" else Path(path))


def _dying(store: Store, dies: str) -> None:
    commit = store.commit

    def reach(batch: Batch, when: str) -> None:
        if when == dies and any(ENOUGH in str(message.content) for message in batch.messages):
            os.kill(os.getpid(), signal.SIGKILL)

    async def dying(session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
        reach(batch, "before")
        made = await commit(session_id, epoch, batch)
        reach(batch, "after")
        return made

    store.commit = dying


async def _at_work(url: str, base_url: str, dies: str, late: str) -> None:
    store, work = store_of(url), Lingering()
    _dying(store, dies)
    await store.open()
    provider = AnthropicProvider("test-key", base_url=base_url)

    def make(name: str, runtime: Runtime) -> Agent:
        on_event = None if late.startswith("Beside a call") else work.work
        return Agent(name, [work.tool], runtime=runtime, on_event=on_event)

    async with AgentPool(make, runtime=Runtime(provider=provider, store=store)) as pool:
        asked = asyncio.create_task(pool.ask("ann", "Wait."))
        await work.begun.wait()
        cancelling = asyncio.create_task(pool.cancel("ann", ENOUGH))
        await work.ending.wait()
        if late:
            await pool.send("ann", late)
        work.end.set()
        await asyncio.wait({asked, cancelling})
        assert isinstance(asked.exception(), Cancelled)


async def _opened(url: str, base_url: str, late: str) -> None:
    store, begun, go = store_of(url), asyncio.Event(), asyncio.Event()
    _dying(store, "after")
    await store.open()
    runtime = Runtime(provider=AnthropicProvider("test-key", base_url=base_url), store=store)
    async with Agent("ann", runtime=runtime) as ann:
        await ann.say("Wait.")
    approvals = store.approvals

    async def slow(session_id: str, *, pending: bool = False) -> list[ApprovalRecord]:
        if not begun.is_set():  # the cancel, before it stores anything
            begun.set()
            await go.wait()
        return await approvals(session_id, pending=pending)

    store.approvals = slow
    async with AgentPool(lambda name, runtime: Agent(name, runtime=runtime), runtime=runtime) as pool:
        cancelling = asyncio.create_task(pool.cancel("ann", ENOUGH))
        await begun.wait()
        await pool.send("ann", late)
        go.set()
        await cancelling
