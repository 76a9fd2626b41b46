"""Commits that are stored and whose answers are lost, and commits that are rolled back: what is told of it, once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from koda_ray.agent import Agent, tool
from koda_ray.agent.breakpoints import TRANSITIONS, Breakpoint
from koda_ray.agent.runtime import Runtime
from koda_ray.errors import StorageError
from koda_ray.events import Envelope
from koda_ray.llm.base import Block
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store
from koda_ray.types import Budget
from tests.agent.scripted import Given, Provider, calls, says
from tests.cutting import Cutting
from tests.llm.server import results

WAY = [
    "PRE_MODEL", "STREAMING_MODEL", "TOOL_PENDING", "PRE_TOOL", "TOOL_EXECUTING", "POST_TOOL", "PRE_MODEL",
    "STREAMING_MODEL", "READY",
]  # fmt: skip


class Failing(SqlStore):
    """A store whose Nth commit fails, be it rolled back, or ``stored`` and only its answer lost."""

    def __init__(self, path: Path, *, stored: bool) -> None:
        super().__init__(path)
        self.left = 0
        self.stored = stored
        self.batch = Batch()

    async def commit(self, session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
        self.left -= 1
        if self.left != 0:
            return await super().commit(session_id, epoch, batch)
        self.batch = batch
        if self.stored:
            await super().commit(session_id, epoch, batch)
        raise StorageError("the connection was closed")


def model(request: Given) -> list[Block]:
    return [says("Put.")] if results(request) else [calls("put", {"what": "x"})]


@asynccontextmanager
async def putter(name: str, store: Store, budget: Budget | None) -> AsyncGenerator[Agent]:
    @tool(effect="idempotent")
    async def put(what: str) -> str:
        """Put."""
        return what

    runtime = Runtime(provider=Provider(model), store=store, budget=budget)
    async with Agent(name, [put], runtime=runtime) as agent:
        yield agent


async def through(agent: Agent) -> None:
    """Run it, and once more where a commit failed, as whoever waits for it would."""
    for _ in range(3):
        try:
            assert (await agent.run("Put x.", key="job")).text == "Put."
            return
        except StorageError:
            continue
    raise AssertionError("one commit fails, and three runs have failed")


async def way(store: Store, agent: Agent) -> list[tuple[str | None, str]]:
    """List the breakpoints that were told, with those before them."""
    events = await store.events(agent.id, limit=1000)
    return [
        (cast("str | None", each.data["from"]), str(each.data["to"]))
        for each in events
        if each.type == "breakpoint_change"
    ]


def is_one_way(told: list[tuple[str | None, str]]) -> bool:
    """Whether each breakpoint was told once, going on from the one before; one may be read back, as after a crash."""
    read_back = [(at, to) for (_, at), (_, to) in pairwise(told) if to not in TRANSITIONS[Breakpoint(at)]]
    return [at for at, _ in told] == [None, *(to for _, to in told[:-1])] and len(read_back) <= 1


@pytest.mark.parametrize("budget", [None, Budget(tokens=1_000_000)], ids=["free", "budget"])
@pytest.mark.parametrize("stored", [True, False], ids=["answer lost", "rolled back"])
async def test_whichever_commit_fails_each_breakpoint_is_told_once_and_in_order(
    tmp_path: Path, stored: bool, budget: Budget | None
) -> None:
    store = Failing(tmp_path / "agents.db", stored=stored)
    await store.open()
    fails_at, failed = 0, True
    while failed:
        fails_at += 1
        store.left = fails_at
        async with putter(f"ann {fails_at}", store, budget) as agent:
            await through(agent)
            failed, told = store.left <= 0, await way(store, agent)
            lost = [event.data["to"] for event in store.batch.events if event.type == "breakpoint_change"]
            assert is_one_way(told), f"commit {fails_at} with {lost}: {told}"
            assert failed or [to for _, to in told] == WAY
    assert fails_at > 5
    await store.close()


@pytest.mark.full
async def test_postgres_that_breaks_off_after_each_commit_tells_each_breakpoint_once(postgres_url: str) -> None:
    async with Cutting(postgres_url) as cutting:
        store = SqlStore(cutting.url)
        await store.open()

        async def cut_off(session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
            nonlocal left
            left -= 1
            cutting.armed = left == 0
            return await usual(session_id, epoch, batch)

        usual, cuts = store.commit, 0
        store.commit = cut_off  # type: ignore[method-assign]
        for number in range(1, 100):
            left = number
            runtime = Runtime(provider=Provider([[says("Hello.")]] * 3), store=store)
            async with Agent(f"ann {number}", runtime=runtime) as agent:
                for _ in range(3):
                    try:
                        await agent.run("Hello?", key="job")
                        break
                    except StorageError:
                        continue
                assert is_one_way(told := await way(store, agent)), (number, told)
            if cutting.cuts == cuts:
                break
            cuts = cutting.cuts
        assert cuts >= 3
        await store.close()
