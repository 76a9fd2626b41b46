"""A process that does the job of `tests.agent.world` over the real store and provider, and kills itself on the way.

``python -m tests.agent.victim DATABASE OUTSIDE SESSION BASE_URL DIES_AT``: SIGKILL at the given instant, 0 for never.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from koda_ray.agent.breakpoints import Breakpoint
from koda_ray.agent.loop import AgentLoop
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Batch
from tests.agent.journals import SqlJournal, effects, record_effect
from tests.agent.world import toolkit


class Outside:
    """Effects that the death of this process does not undo."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def charge(self, item: str) -> None:
        record_effect(self._path, item, once=False)

    def put(self, key: str) -> None:
        record_effect(self._path, key, once=True)

    def charged(self) -> list[str]:
        return effects(self._path)[0]


async def main(database: str, outside: str, session_id: str, base_url: str, dies_at: int) -> None:
    """Live until the job is done or the instant has come."""
    instants = 0

    def tick(_: str) -> None:
        nonlocal instants
        instants += 1
        if instants == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    class Ticking(SqlJournal):
        async def commit(self, batch: Batch) -> None:
            tick("before commit")
            await super().commit(batch)
            tick("after commit")

    class Loop(AgentLoop):
        def _move(self, to: Breakpoint) -> None:
            super()._move(to)
            tick(f"at {to}")

    async def streamed(_: object) -> None:
        tick("delta")

    store = SqlStore(database)
    await store.open()
    fenced = await SqlJournal.activate(store, session_id)
    loop = Loop(
        agent="orchestrator",
        provider=AnthropicProvider("test-key", base_url=base_url),
        model="m",
        system=("Do the job.",),
        toolkit=toolkit(Outside(Path(outside)), tick),
        journal=Ticking(store, session_id, fenced.epoch),
        session_id=session_id,
        user_id="local",
        on_event=streamed,
    )
    if not await store.messages(session_id):
        await loop.add_user("Do the job.")
    while (outcome := await loop.run()).kind == "suspended":
        await loop.resolve(outcome.suspended_call_id or "", '{"status": "accepted"}')
    assert outcome.text == "Done.", outcome
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5], int(sys.argv[5])))
