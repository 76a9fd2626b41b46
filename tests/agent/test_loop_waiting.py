from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest

from koda_ray.agent.breakpoints import Breakpoint
from koda_ray.agent.loop import AgentLoop
from koda_ray.agent.toolkit import ToolCall, ToolOutcome
from koda_ray.errors import (
    InvalidTransition,
    NotFound,
)
from koda_ray.events import NewEvent
from koda_ray.llm.base import TextDelta
from koda_ray.state.records import Batch
from tests.agent.desk import Desk, Path, echo, tool, wait_for_person
from tests.agent.journals import Disk
from tests.agent.scripted import Provider, calls, says


async def test_a_suspended_call_waits_across_loops_and_is_resolved() -> None:
    disk = Disk()
    ask = tool("ask", wait_for_person, effect="idempotent", asks=True)
    after = tool("after", echo)
    script: list[Any] = [[calls("ask", {"path": "a"}), calls("after", {"path": "b"})]]
    first = Desk(script, ask, after, disk=disk)
    await first.loop.add_user("Go")
    outcome = await first.loop.run()
    assert outcome.kind == "suspended" and outcome.suspended_call_id is not None
    assert first.loop.breakpoint is Breakpoint.AWAITING_APPROVAL
    assert [record.name for record in disk.calls.values()] == ["ask"]  # the call after it has not begun

    second = Desk([[says("Thanks.")]], ask, after, disk=disk)
    assert (await second.loop.run()).suspended_call_id == outcome.suspended_call_id
    waiting = await second.loop.waiting()
    assert waiting is not None and waiting.id == outcome.suspended_call_id
    event = NewEvent(type="approval_resolved")
    assert await second.loop.resolve(waiting.id, '{"status":"accepted"}', Batch(events=[event]))
    assert not await second.loop.resolve(waiting.id, "again", Batch(events=[event]))
    assert [e.type for e in disk.events].count("approval_resolved") == 1
    assert await second.loop.waiting() is None

    assert (await second.loop.run()).text == "Thanks."
    assert [r["content"] for r in second.results] == ['{"status":"accepted"}', '{"path":"b","attempt":1}']


async def test_only_waiting_calls_can_be_resolved() -> None:
    desk = Desk([[calls("echo", {"path": "a"})], [says("Done.")]])
    await desk.loop.add_user("Go")
    await desk.loop.run()
    with pytest.raises(NotFound):
        await desk.loop.resolve("cal_none", "x")
    (call_id,) = desk.disk.calls
    assert not await desk.loop.resolve(call_id, "x")


async def test_abandoned_calls_do_not_run_again_and_the_model_is_told() -> None:
    disk, entered = Disk(), asyncio.Event()

    async def hold(given: Path, call: ToolCall) -> ToolOutcome:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    tools = (tool("hold", hold, effect="idempotent"), tool("echo", echo))
    script = [[calls("echo", {"path": "a"}), calls("hold", {"path": "b"}), calls("echo", {"path": "c"})]]
    desk = Desk(script, *tools, disk=disk)
    await desk.loop.add_user("Go")
    task = asyncio.create_task(desk.loop.run())
    await entered.wait()
    with pytest.raises(InvalidTransition):
        await desk.loop.abandon("The person stopped the work.")
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    event = NewEvent(type="state_change")
    assert await desk.loop.abandon("The person stopped the work.", Batch(events=[event])) == 2
    assert desk.loop.breakpoint is Breakpoint.READY
    assert "state_change" in [e.type for e in disk.batches[-1].events]
    await desk.loop.add_user("Do something else")

    again = Desk([[says("All right.")]], *tools, disk=disk)
    assert (await again.loop.run()).text == "All right."
    assert [r["is_error"] for r in again.results] == [False, True, True]
    assert "had begun" in again.results[1]["content"] and "not begun" in again.results[2]["content"]
    assert [record.status for record in disk.calls.values()] == ["succeeded", "interrupted", "interrupted"]
    assert await again.loop.abandon("Again.") == 0


async def test_a_call_that_waits_can_be_abandoned() -> None:
    desk = Desk([[calls("ask", {"path": "a"})], [says("Fine.")]], tool("ask", wait_for_person))
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).kind == "suspended"
    assert await desk.loop.abandon("The person stopped the work.") == 1
    assert await desk.loop.waiting() is None
    assert (await desk.loop.run()).text == "Fine."


async def test_words_between_a_call_and_its_result_follow_the_result() -> None:
    disk = Disk()
    ask = tool("ask", wait_for_person, effect="idempotent")
    desk = Desk([[calls("ask", {"path": "a"})], [says("Yes.")]], ask, disk=disk)
    await desk.loop.add_user("Go")
    outcome = await desk.loop.run()
    await desk.loop.add_user("By the way")
    assert (await desk.loop.run()).kind == "suspended"
    assert outcome.suspended_call_id is not None
    await desk.loop.resolve(outcome.suspended_call_id, "fine")
    assert (await desk.loop.run()).text == "Yes."
    last = desk.provider.requests[-1]["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result", "text"]
    assert last[1]["text"] == "By the way"


async def test_words_said_while_the_model_answers_are_answered_next() -> None:
    loops: list[AgentLoop] = []

    class Interrupted(Provider):
        async def stream(self, request: Any) -> Any:
            async for event in super().stream(request):
                if len(self.requests) == 1 and isinstance(event, TextDelta):
                    await loops[0].add_user("And also this")
                yield event

    desk = Desk([], answered_by=Interrupted([[says("First.")], [says("Second.")]]))
    loops.append(desk.loop)
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).text == "Second."
    said = [(message.role, cast("Any", message.content[0])["text"]) for message in desk.disk.history()]
    assert said == [("user", "Go"), ("assistant", "First."), ("user", "And also this"), ("assistant", "Second.")]


async def test_it_runs_once_at_a_time() -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def hold(given: Path, call: ToolCall) -> ToolOutcome:
        entered.set()
        await leave.wait()
        return ToolOutcome(content="")

    desk = Desk([[calls("hold", {"path": "a"})], [says("Done.")]], tool("hold", hold))
    await desk.loop.add_user("Go")
    task = asyncio.create_task(desk.loop.run())
    await entered.wait()
    with pytest.raises(InvalidTransition):
        await desk.loop.run()
    await desk.loop.add_user("While it runs")
    leave.set()
    assert (await task).text == "Done."
