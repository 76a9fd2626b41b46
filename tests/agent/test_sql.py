"""The same kernel over the real store: fenced and crashed; `tests.faults` kills it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from koda_ray.agent.breakpoints import Breakpoint, derive
from koda_ray.agent.identity import AgentIdentity
from koda_ray.agent.ledger import recorded_result
from koda_ray.agent.loop import AgentLoop
from koda_ray.agent.spec import ModelAccess, Prompt
from koda_ray.errors import Fenced
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.types import new_id
from tests.agent.journals import Crash, SqlJournal, state_of
from tests.agent.scripted import Provider
from tests.agent.world import MemoryWorld, job, toolkit


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    yield store
    await store.close()


async def session(store: SqlStore) -> str:
    session_id = new_id("ses")
    await store.create_session(state_of(session_id), key=session_id, body={})
    return session_id


def loop_over(journal: Any, session_id: str, world: MemoryWorld, tick: Any = lambda _: None) -> AgentLoop:
    return AgentLoop(
        AgentIdentity(agent="orchestrator", session_id=session_id, user_id="local"),
        access=ModelAccess(provider=Provider(job, tick=tick), model="m", prompt=Prompt(system=("Do the job.",))),
        toolkit=toolkit(world, tick),
        journal=journal,
    )


async def sound(store: SqlStore, session_id: str) -> None:
    """What holds of a finished job in the store."""
    history = await store.messages(session_id, agent="orchestrator")
    ledger = {record.id: record for record in await store.tool_calls(session_id)}
    assert derive(history, ledger) is Breakpoint.READY
    assert all(recorded_result(record) is not None for record in ledger.values())
    events = await store.events(session_id, limit=1000)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    ends = [event.data["callId"] for event in events if event.type == "tool_end"]
    assert sorted(map(str, ends)) == sorted(ledger), "an outcome announced twice or never"


@pytest.mark.parametrize("instant", [2, 5, 9, 14, 20])
async def test_a_crash_and_a_new_activation(store: SqlStore, instant: int) -> None:
    session_id, world, ticks = await session(store), MemoryWorld(), 0

    def tick(what: str) -> None:
        nonlocal ticks
        ticks += 1
        if ticks == instant:
            raise Crash(what)

    first = loop_over(await SqlJournal.activate(store, session_id), session_id, world, tick)
    await first.add_user("Do the job.")
    try:
        outcome = await first.run()
        assert outcome.suspended_call_id is not None
        await first.resolve(outcome.suspended_call_id, "{}")
        await first.run()
    except Crash:
        pass
    second = loop_over(await SqlJournal.activate(store, session_id), session_id, world, tick)
    while (outcome := await second.run()).kind == "suspended":
        assert outcome.suspended_call_id is not None
        await second.resolve(outcome.suspended_call_id, "{}")
    assert outcome.text == "Done."
    assert sorted(world.charges) == ["a", "b"]
    await sound(store, session_id)


async def test_a_replaced_activation_stops_and_has_written_nothing(store: SqlStore) -> None:
    session_id, world = await session(store), MemoryWorld()
    old = loop_over(await SqlJournal.activate(store, session_id), session_id, world)
    await old.add_user("Do the job.")
    new = loop_over(await SqlJournal.activate(store, session_id), session_id, world)
    with pytest.raises(Fenced):
        await old.run()
    with pytest.raises(Fenced):
        await old.add_user("Still here")
    assert world.charges == []
    assert len(await store.messages(session_id)) == 1
    assert (await new.run()).kind == "suspended"


async def test_a_loop_that_is_replaced_while_it_runs_does_no_more(store: SqlStore) -> None:
    session_id, world = await session(store), MemoryWorld()
    journal = await SqlJournal.activate(store, session_id)

    class Replaced(SqlJournal):
        async def commit(self, batch: Batch) -> None:
            if batch.tool_calls and batch.tool_calls[0].status == "started":
                await SqlJournal.activate(store, session_id)  # a twin takes over just before START
            await journal.commit(batch)

    old = loop_over(Replaced(store, session_id, 0), session_id, world)
    await old.add_user("Do the job.")
    with pytest.raises(Fenced):
        await old.run()
    assert world.charges == []
