from __future__ import annotations

import asyncio
import json
from datetime import datetime

import pytest

from koda_ray.agent.breakpoints import Breakpoint
from koda_ray.agent.toolkit import ToolCall, ToolOutcome
from koda_ray.errors import (
    Fenced,
    InvalidInput,
    NotFound,
)
from koda_ray.events import NewEvent
from koda_ray.llm.base import INVALID_INPUT, Block, TextDelta, ToolInputDelta
from koda_ray.state.records import Batch, BeadRecord
from koda_ray.types import now
from tests.agent.desk import Desk, Path, tool
from tests.agent.journals import Disk
from tests.agent.scripted import calls, says


async def test_words_end_the_turn() -> None:
    desk = Desk([[says("Hello.")]])
    await desk.loop.add_user("Hi")
    outcome = await desk.loop.run()
    assert (outcome.kind, outcome.text) == ("end_turn", "Hello.")
    assert desk.loop.breakpoint is Breakpoint.READY
    assert [message.role for message in desk.disk.history()] == ["user", "assistant"]
    assert desk.seen == [TextDelta(text="Hello.")]
    assert desk.types() == ["usage"]
    assert next(event for event in desk.disk.events if event.type == "usage").data["inputTokens"] == 10


async def test_running_again_after_the_end_asks_nobody() -> None:
    desk = Desk([[says("Hello.")]])
    await desk.loop.add_user("Hi")
    await desk.loop.run()
    assert (await desk.loop.run()).text == "Hello."
    assert len(desk.provider.requests) == 1


async def test_nothing_to_answer_is_an_error() -> None:
    with pytest.raises(InvalidInput):
        await Desk([]).loop.run()
    with pytest.raises(InvalidInput):
        await Desk([]).loop.add_user("  ")


async def test_calls_run_in_order_and_results_go_back_in_order() -> None:
    ran: list[str] = []

    async def note(given: Path, call: ToolCall) -> ToolOutcome:
        ran.append(given.path)
        return ToolOutcome(content=given.path)

    desk = Desk(
        [[says("Two things."), calls("note", {"path": "a"}), calls("note", {"path": "b"})], [says("Done.")]],
        tool("note", note),
    )
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).text == "Done."
    assert ran == ["a", "b"]
    assert [result["content"] for result in desk.results] == ["a", "b"]
    assert desk.types() == ["usage", "tool_start", "tool_end", "tool_start", "tool_end", "usage"]


async def test_start_is_durable_before_the_tool_runs() -> None:
    disk = Disk()
    statuses: list[str] = []

    async def look(given: Path, call: ToolCall) -> ToolOutcome:
        statuses.append(disk.calls[call.id].status)
        return ToolOutcome(content="")

    desk = Desk([[calls("look", {"path": "a"})], [says("Done.")]], tool("look", look), disk=disk)
    await desk.loop.add_user("Go")
    await desk.loop.run()
    assert statuses == ["started"]
    assert [record.status for record in disk.calls.values()] == ["succeeded"]


async def test_a_tools_changes_are_committed_with_its_outcome() -> None:
    bead = BeadRecord(
        id="bed_1",
        session_id="ses_1",
        user_id="local",
        type="task",
        title="t",
        status="open",
        position=0,
        created_at=now(),
    )

    async def make(given: Path, call: ToolCall) -> ToolOutcome:
        event = NewEvent(type="todo_update", data={"id": "bed_1"})
        return ToolOutcome(content="made", batch=Batch(beads=[bead], events=[event], touch=True))

    desk = Desk([[calls("make", {"path": "a"})], [says("Done.")]], tool("make", make))
    await desk.loop.add_user("Go")
    await desk.loop.run()
    batch = next(batch for batch in desk.disk.batches if batch.beads)
    assert batch.touch
    assert [record.status for record in batch.tool_calls] == ["succeeded"]
    assert [message.role for message in batch.messages] == ["user"]
    assert [event.type for event in batch.events if event.type != "breakpoint_change"] == ["todo_update", "tool_end"]


async def test_the_same_ids_in_every_answer_are_different_calls() -> None:
    desk = Desk([[calls("echo", {"path": "a"})], [calls("echo", {"path": "b"})], [says("Done.")]])
    await desk.loop.add_user("Go")
    await desk.loop.run()
    assert [json.loads(r["content"])["path"] for r in desk.results] == ["a", "b"]
    deltas = [event.id for event in desk.seen if isinstance(event, ToolInputDelta)]
    assert deltas == list(desk.disk.calls)


@pytest.mark.parametrize(
    ("call", "code", "named"),
    [
        (calls("echo", {"path": 1}), "INVALID_INPUT", "path"),
        (calls("echo", {}), "INVALID_INPUT", "path"),
        (calls("echo", {"path": "x" * 30}), "INVALID_INPUT", "20 characters"),
        (calls("nothing", {}), "UNKNOWN_TOOL", "echo"),
        (calls("echo", {INVALID_INPUT: '{"path": "a'}), "INVALID_JSON", '{"path": "a'),
    ],
)
async def test_a_call_that_does_not_fit_goes_back_and_nothing_runs(call: Block, code: str, named: str) -> None:
    desk = Desk([[call], [says("Sorry.")]])
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).text == "Sorry."
    (result,) = desk.results
    error = json.loads(result["content"])["error"]
    assert result["is_error"] and error["code"] == code and error["retryable"]
    assert named in json.dumps(error, ensure_ascii=False).replace("\\", "")
    assert [(r.status, r.attempt) for r in desk.disk.calls.values()] == [("failed", 0)]
    assert "tool_start" not in desk.types()


async def test_what_a_tool_raises_goes_back_as_an_error() -> None:
    async def refuse(given: Path, call: ToolCall) -> ToolOutcome:
        raise NotFound(f"{given.path} is not there", code="FILE_NOT_FOUND", context={"path": given.path})

    async def bug(given: Path, call: ToolCall) -> ToolOutcome:
        raise ZeroDivisionError("oh")

    async def slow(given: Path, call: ToolCall) -> ToolOutcome:
        await asyncio.Event().wait()
        raise AssertionError

    desk = Desk(
        [[calls(name, {"path": "a"}) for name in ("refuse", "bug", "slow")], [says("I see.")]],
        tool("refuse", refuse),
        tool("bug", bug),
        tool("slow", slow, timeout_s=0.02),
    )
    await desk.loop.add_user("Go")
    await desk.loop.run()
    errors = [json.loads(result["content"])["error"] for result in desk.results]
    assert [error["code"] for error in errors] == ["FILE_NOT_FOUND", "INTERNAL", "TIMEOUT"]
    assert errors[0]["path"] == "a"
    assert not errors[1]["retryable"]
    assert "may have done part" in errors[2]["message"]


async def test_a_fence_stops_the_loop_at_once() -> None:
    async def fenced(given: Path, call: ToolCall) -> ToolOutcome:
        raise Fenced("a newer activation owns the session")

    desk = Desk([[calls("fenced", {"path": "a"})]], tool("fenced", fenced))
    await desk.loop.add_user("Go")
    with pytest.raises(Fenced):
        await desk.loop.run()
    assert [record.status for record in desk.disk.calls.values()] == ["started"]


async def test_very_long_results_are_cut_in_the_middle() -> None:
    async def flood(given: Path, call: ToolCall) -> ToolOutcome:
        return ToolOutcome(content="<" + "x" * 200_000 + ">")

    desk = Desk([[calls("flood", {"path": "a"})], [says("Long.")]], tool("flood", flood))
    await desk.loop.add_user("Go")
    await desk.loop.run()
    (result,) = desk.results
    assert len(result["content"]) < 61_000
    assert result["content"][0] == "<" and result["content"][-1] == ">" and "left out" in result["content"]


async def test_the_state_is_sent_last_and_never_stored() -> None:
    desk = Desk([[calls("echo", {"path": "a"})], [says("Done.")]], state="<state>{}</state>")
    await desk.loop.add_user("Go")
    await desk.loop.run()
    for request in desk.provider.requests:
        assert request["messages"][-1]["content"][-1] == {"type": "text", "text": "<state>{}</state>"}
        assert json.dumps(request["messages"]).count("<state>") == 1
    assert all("<state>" not in json.dumps(message.content) for message in desk.disk.history())


async def test_long_conversations_are_shortened_and_keep_the_persons_words() -> None:
    desk = Desk(lambda request: [says("Yes.")])
    for n in range(40):
        await desk.loop.add_user(f"preference {n}")
        await desk.loop.run()
    sent = desk.provider.requests[-1]["messages"]
    assert len(sent) < 25
    everything = json.dumps(sent)
    assert all(f"preference {n}" in everything for n in range(40))
    assert isinstance(desk.disk.history()[0].created_at, datetime)
