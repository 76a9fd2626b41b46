from __future__ import annotations

import asyncio
from typing import Any

import pytest

from koda_ray.agent.toolkit import ToolCall, ToolOutcome
from koda_ray.state.records import Batch, SideEffect
from tests.agent.desk import Desk, Path, echo, tool
from tests.agent.journals import Crash, Disk, MemoryJournal
from tests.agent.scripted import calls, says


async def failing(given: Path, call: ToolCall) -> ToolOutcome:
    return ToolOutcome.failure("NO", "it does not work")


async def test_the_same_failing_call_again_and_again_is_stuck() -> None:
    desk = Desk(lambda _: [calls("try", {"path": "a"})], tool("try", failing))
    await desk.loop.add_user("Go")
    outcome = await desk.loop.run()
    assert outcome.kind == "stuck" and "try failed 3 times" in outcome.text
    assert len(desk.provider.requests) == 3
    # whoever runs it again gives it as many chances again
    assert (await desk.loop.run()).kind == "stuck"
    assert len(desk.provider.requests) == 6


async def test_progress_in_between_is_not_stuck() -> None:
    script: list[Any] = []
    for turn in range(4):
        script += [[calls("try", {"path": "a"})], [calls("echo", {"path": str(turn)})]]
    desk = Desk([*script, [says("Done.")]], tool("try", failing), tool("echo", echo))
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).kind == "end_turn"


async def test_turns_and_calls_are_bounded_and_the_next_run_goes_on() -> None:
    desk = Desk(lambda request: [calls("echo", {"path": str(len(request["messages"]))})], turns=4)
    await desk.loop.add_user("Go")
    outcome = await desk.loop.run()
    assert outcome.kind == "limit" and "4 answers" in outcome.text
    assert (await desk.loop.run()).kind == "limit"
    assert len(desk.provider.requests) == 8

    desk = Desk([[calls("echo", {"path": str(n)}) for n in range(5)], [says("Done.")]], tool_calls=3)
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).kind == "limit"
    assert len(desk.disk.calls) == 3
    assert (await desk.loop.run()).text == "Done."
    assert len(desk.disk.calls) == 5


async def test_a_call_that_ends_its_process_each_time_is_given_up() -> None:

    async def poison(given: Path, call: ToolCall) -> ToolOutcome:
        raise Crash("killed")

    disk = Disk()
    for life in range(3):
        desk = Desk([[calls("poison", {"path": "a"})]], tool("poison", poison, effect="pure"), disk=disk)
        if life == 0:
            await desk.loop.add_user("Go")
        with pytest.raises(Crash):
            await desk.loop.run()
    desk = Desk([[says("I give up.")]], tool("poison", poison, effect="pure"), disk=disk)
    assert (await desk.loop.run()).text == "I give up."
    (record,) = disk.calls.values()
    assert (record.status, record.attempt) == ("interrupted", 3)


@pytest.mark.parametrize("agrees", [True, False])
async def test_a_call_that_is_done_once_and_ends_its_process_each_time_runs_on_when_a_person_agrees(
    agrees: bool,
) -> None:
    """To close it and tell the model would have it made again, under another id: that is done twice."""
    ids: list[str] = []

    async def poison(given: Path, call: ToolCall) -> ToolOutcome:
        ids.append(call.id)
        if len(ids) < 4:
            raise Crash("killed")
        return ToolOutcome(content="put")

    disk = Disk()
    for life in range(3):
        desk = Desk([[calls("poison", {"path": "a"})]], tool("poison", poison, effect="idempotent"), disk=disk)
        if life == 0:
            await desk.loop.add_user("Go")
        with pytest.raises(Crash):
            await desk.loop.run()
    desk = Desk([[says("Done.")]], tool("poison", poison, effect="idempotent"), disk=disk)
    outcome = await desk.loop.run()
    (row,) = disk.calls.values()
    assert (outcome.kind, outcome.suspended_call_id, row.status) == ("suspended", row.id, "waiting")
    (asked,) = (approval for batch in disk.batches for approval in batch.approvals)
    assert "poison has begun 3 times" in str(asked.payload["reason"])
    if agrees:
        await desk.loop.approve(row.id)
    else:
        await desk.loop.reject(row.id, "Leave it.")
    assert (await desk.loop.run()).text == "Done."
    (result,) = desk.results
    if agrees:
        assert result["content"] == "put" and len(ids) == 4 and len(set(ids)) == 1
    else:
        assert "may have done part of its work. Leave it." in str(result["content"]) and len(ids) == 3


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_call_whose_program_was_closed_in_good_order_each_time_runs_again_and_nobody_is_asked(
    effect: SideEffect,
) -> None:
    attempts: list[int] = []
    entered = asyncio.Event()

    async def put(given: Path, call: ToolCall) -> ToolOutcome:
        attempts.append(call.attempt)
        entered.set()
        if len(attempts) in (2, 6, 7):
            raise Crash("killed")
        if len(attempts) < 6:
            await asyncio.Event().wait()
        return ToolOutcome(content="put")

    disk = Disk()
    for life in range(5):
        entered.clear()
        desk = Desk([[calls("put", {"path": "a"})]], tool("put", put, effect=effect), disk=disk)
        if life == 0:
            await desk.loop.add_user("Go")
        run = asyncio.create_task(desk.loop.run())
        await entered.wait()
        run.cancel()
        with pytest.raises((asyncio.CancelledError, Crash)):
            await run
    for _ in range(2):  # and deaths count as before, however often it was stopped in between
        with pytest.raises(Crash):
            await Desk([], tool("put", put, effect=effect), disk=disk).loop.run()
    assert attempts == [1, 2, 3, 4, 5, 6, 7]
    desk = Desk([[says("Done.")]], tool("put", put, effect=effect), disk=disk)
    outcome = await desk.loop.run()
    if effect == "pure":
        assert outcome.text == "Done." and "INTERRUPTED" in desk.results[0]["content"]
        return
    (asked,) = (approval for batch in disk.batches for approval in batch.approvals)
    assert "put has begun 7 times, and 3 of those times its process ended" in str(asked.payload["reason"])
    await desk.loop.approve(asked.call_id or "")
    assert (await desk.loop.run()).text == "Done."
    assert attempts[-1] == 8 and desk.results[0]["content"] == "put"


async def test_a_call_that_cancels_itself_each_time_is_not_run_for_ever() -> None:

    async def poison(given: Path, call: ToolCall) -> ToolOutcome:
        raise asyncio.CancelledError

    disk = Disk()
    for life in range(3):
        desk = Desk([[calls("poison", {"path": "a"})]], tool("poison", poison, effect="pure"), disk=disk)
        if life == 0:
            await desk.loop.add_user("Go")
        with pytest.raises(asyncio.CancelledError):
            await desk.loop.run()
    assert (await Desk([[says("No.")]], tool("poison", poison, effect="pure"), disk=disk).loop.run()).text == "No."


async def test_an_unsafe_call_that_was_cancelled_as_its_start_was_stored_has_not_begun() -> None:
    disk, ran = Disk(), list[int]()
    writing, go_on = asyncio.Event(), asyncio.Event()

    class Slow(MemoryJournal):
        async def commit(self, batch: Batch) -> None:
            if any(record.status == "started" for record in batch.tool_calls):
                writing.set()
                await go_on.wait()
            await super().commit(batch)

    async def pay(given: Path, call: ToolCall) -> ToolOutcome:
        ran.append(call.attempt)
        return ToolOutcome(content="paid")

    desk = Desk([[calls("pay", {"path": "a"})], [says("Paid.")]], tool("pay", pay), journal=Slow(disk))
    await desk.loop.add_user("Go")
    task = asyncio.create_task(desk.loop.run())
    await writing.wait()
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == [] and [(row.status, row.attempt) for row in disk.calls.values()] == [("approved", 0)]
    assert (await desk.loop.run()).text == "Paid." and ran == [1]
