from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from koda_ray.agent.toolkit import ToolCall, ToolOutcome
from koda_ray.llm.base import TextDelta
from koda_ray.state.records import Batch
from tests.agent.desk import Desk, Path, echo, tool
from tests.agent.journals import Disk, MemoryJournal
from tests.agent.scripted import Provider, calls, says


async def test_cancelling_leaves_a_history_that_goes_on() -> None:
    disk, entered = Disk(), asyncio.Event()

    async def hold(given: Path, call: ToolCall) -> ToolOutcome:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    desk = Desk([[calls("hold", {"path": "a"})]], tool("hold", hold), disk=disk)
    await desk.loop.add_user("Go")
    task = asyncio.create_task(desk.loop.run())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = Desk([[says("It was cut off.")]], tool("hold", hold), disk=disk)
    await again.loop.add_user("What now?")
    assert (await again.loop.run()).text == "It was cut off."
    assert "INTERRUPTED" in again.results[0]["content"]


async def test_cancelling_the_model_closes_its_stream() -> None:
    began = asyncio.Event()

    class Endless(Provider):
        async def stream(self, request: Any) -> Any:
            try:
                yield TextDelta(text="a")
                began.set()
                await asyncio.Event().wait()
            finally:
                self.closed_early += 1

    endless = Endless([])
    desk = Desk([], answered_by=endless)
    await desk.loop.add_user("Go")
    task = asyncio.create_task(desk.loop.run())
    await began.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert endless.closed_early == 1
    assert len(desk.disk.history()) == 1


async def test_an_outcome_that_is_being_recorded_survives_cancellation() -> None:
    disk = Disk()
    writing, go_on = asyncio.Event(), asyncio.Event()

    class Slow(MemoryJournal):
        async def commit(self, batch: Batch) -> None:
            if any(record.status == "succeeded" for record in batch.tool_calls):
                writing.set()
                await go_on.wait()
            await super().commit(batch)

    desk = Desk([[calls("echo", {"path": "a"})], [says("Done.")]], journal=Slow(disk))
    await desk.loop.add_user("Go")
    task = asyncio.create_task(desk.loop.run())
    await writing.wait()
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [record.status for record in disk.calls.values()] == ["succeeded"]
    assert (await desk.loop.run()).text == "Done."


async def test_a_commit_that_failed_is_read_again() -> None:
    disk = Disk()

    class Flaky(MemoryJournal):
        failures = 1

        async def commit(self, batch: Batch) -> None:
            await super().commit(batch)
            if batch.tool_calls and self.failures:
                self.failures -= 1
                raise OSError("the connection was lost, but the commit had landed")

    desk = Desk(
        [[calls("echo", {"path": "a"})], [says("Done.")]], tool("echo", echo, effect="idempotent"), journal=Flaky(disk)
    )
    await desk.loop.add_user("Go")
    with pytest.raises(OSError):
        await desk.loop.run()
    assert (await desk.loop.run()).text == "Done."
    assert [(r.status, r.attempt) for r in disk.calls.values()] == [("succeeded", 2)]
