from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, cast

import pytest
from pydantic import BaseModel, Field

from koda_ray.agent.answer import LoopEvent, ModelRetry
from koda_ray.agent.breakpoints import Breakpoint
from koda_ray.agent.loop import AgentLoop, Limits
from koda_ray.agent.spec import ModelAccess, Observers, Policy, Prompt
from koda_ray.agent.stuck import EMPTY
from koda_ray.agent.toolkit import Tool, ToolCall, Toolkit, ToolOutcome
from koda_ray.errors import (
    BudgetExceeded,
    Fenced,
    InvalidInput,
    InvalidTransition,
    ModelAuth,
    ModelOverloaded,
    ModelRefused,
    ModelStreamBroken,
    NotFound,
)
from koda_ray.events import NewEvent
from koda_ray.llm.base import INVALID_INPUT, Block, ModelProvider, TextDelta, ToolInputDelta
from koda_ray.state.store import Batch, BeadRecord, SideEffect
from koda_ray.types import now
from tests.agent.journals import ME, Crash, Disk, MemoryJournal
from tests.agent.scripted import Break, Given, Provider, calls, says
from tests.llm.server import results


class Path(BaseModel):
    path: str = Field(max_length=20)


Run = Callable[[Any, ToolCall], Any]


def tool(name: str, run: Run, *, effect: SideEffect = "unsafe", timeout_s: float = 60, asks: bool = False) -> Tool:
    return Tool(name=name, description=name, input_model=Path, effect=effect, run=run, timeout_s=timeout_s, asks=asks)


async def echo(given: Path, call: ToolCall) -> ToolOutcome:
    return ToolOutcome.json({"path": given.path, "attempt": call.attempt})


async def wait_for_person(given: Path, call: ToolCall) -> ToolOutcome:
    return ToolOutcome(content="", suspend=True)


class Desk:
    """A loop over a disk, with everything that happened at hand."""

    def __init__(
        self,
        model: Callable[[Given], Sequence[Block]] | Sequence[Sequence[Block] | Break],
        *tools: Tool,
        disk: Disk | None = None,
        state: str = "",
        **limits: Any,
    ) -> None:
        self.disk = disk or Disk()
        self.provider = Provider(model)
        self.seen: list[LoopEvent] = []
        self.loop = AgentLoop(
            ME,
            access=ModelAccess(provider=self.provider, model="m"),
            prompt=Prompt(system=("One.", "Two."), context=lambda: state),
            toolkit=Toolkit(tools or [tool("echo", echo)]),
            journal=MemoryJournal(self.disk),
            policy=Policy(limits=Limits(first_wait_s=0.001, **limits)),
            observers=Observers(on_event=self._see),
        )

    def is_answered_by(self, provider: ModelProvider) -> None:
        """Have another provider answer from now on."""
        self.loop._access = ModelAccess(provider=provider, model="m")

    async def _see(self, event: LoopEvent) -> None:
        self.seen.append(event)

    @property
    def results(self) -> list[dict[str, Any]]:
        return results(self.provider.requests[-1])

    def types(self) -> list[str]:
        return [event.type for event in self.disk.events if event.type != "breakpoint_change"]


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


# --- waiting for a person -----------------------------------------------------------------------------------------


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
    assert desk.loop.breakpoint is Breakpoint.PRE_MODEL
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


# --- talking meanwhile --------------------------------------------------------------------------------------------


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

    desk = Desk([])
    desk.is_answered_by(Interrupted([[says("First.")], [says("Second.")]]))
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


# --- the state block ----------------------------------------------------------------------------------------------


async def test_the_state_is_sent_last_and_never_stored() -> None:
    desk = Desk([[calls("echo", {"path": "a"})], [says("Done.")]], state="<state>{}</state>")
    await desk.loop.add_user("Go")
    await desk.loop.run()
    for request in desk.provider.requests:
        assert request["messages"][-1]["content"][-1] == {"type": "text", "text": "<state>{}</state>"}
        assert json.dumps(request["messages"]).count("<state>") == 1
    assert all("<state>" not in json.dumps(message.content) for message in desk.disk.history())


# --- models that break --------------------------------------------------------------------------------------------

CUT = ModelStreamBroken("cut")


async def test_a_broken_stream_is_asked_again_and_nothing_half_is_kept() -> None:
    desk = Desk([Break(CUT, says("Hal")), [says("Whole.")]])
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).text == "Whole."
    assert [message.role for message in desk.disk.history()] == ["user", "assistant"]
    assert desk.types() == ["model_retry", "usage"]
    assert isinstance(desk.seen[1], ModelRetry) and desk.seen[1].code == "MODEL_STREAM_BROKEN"
    assert desk.provider.requests[0] == desk.provider.requests[1]


async def test_a_stream_that_always_breaks_ends_in_the_error_and_can_go_on_later() -> None:
    desk = Desk([Break(CUT, calls("echo", {"path": "a"}))] * 3 + [[says("Back.")]], model_attempts=3)
    await desk.loop.add_user("Go")
    with pytest.raises(ModelStreamBroken):
        await desk.loop.run()
    assert not desk.disk.calls
    assert (await desk.loop.run()).text == "Back."


async def test_an_overload_in_the_middle_is_asked_again_one_at_the_start_is_not() -> None:
    overloaded = ModelOverloaded("busy")
    desk = Desk([Break(overloaded, says("Hal")), [says("Whole.")]])
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).text == "Whole."
    desk = Desk([Break(overloaded)])
    await desk.loop.add_user("Go")
    with pytest.raises(ModelOverloaded):
        await desk.loop.run()
    assert len(desk.provider.requests) == 1


async def test_a_wrong_key_is_not_tried_again() -> None:
    desk = Desk([Break(ModelAuth("no"))])
    await desk.loop.add_user("Go")
    with pytest.raises(ModelAuth):
        await desk.loop.run()
    assert len(desk.provider.requests) == 1


async def test_a_refusal_is_an_error_and_stays_out_of_the_history() -> None:
    desk = Desk([[says("I can't help with that.")]])
    desk.provider._stop = "refusal"  # type: ignore[attr-defined]
    await desk.loop.add_user("Go")
    with pytest.raises(ModelRefused, match="can't help"):
        await desk.loop.run()
    assert [message.role for message in desk.disk.history()] == ["user"]
    assert desk.types() == ["usage"]


async def test_an_answer_cut_at_the_token_limit_is_continued_a_few_times() -> None:
    desk = Desk([[says("word " * 5)]] * 3, model_attempts=3)
    desk.provider._stop = "max_tokens"  # type: ignore[attr-defined]
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).kind == "limit"
    assert len(desk.provider.requests) == 3
    assert "cut off" in desk.provider.requests[1]["messages"][-1]["content"][-1]["text"]


async def test_an_empty_answer_is_asked_about_and_the_history_stays_valid() -> None:
    desk = Desk([[says(" ")], [says("Here.")]])
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).text == "Here."
    (message,) = desk.provider.requests[1]["messages"]
    assert [block["text"] for block in message["content"]] == ["Go", EMPTY]


# --- bounds -------------------------------------------------------------------------------------------------------


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

    desk = Desk([[calls("pay", {"path": "a"})], [says("Paid.")]], tool("pay", pay), disk=disk)
    desk.loop._log._journal = Slow(disk)  # type: ignore[attr-defined]
    await desk.loop.add_user("Go")
    task = asyncio.create_task(desk.loop.run())
    await writing.wait()
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == [] and [(row.status, row.attempt) for row in disk.calls.values()] == [("approved", 0)]
    assert (await desk.loop.run()).text == "Paid." and ran == [1]


# --- side by side, and stopping -----------------------------------------------------------------------------------


async def test_pure_calls_run_beside_each_other_within_the_bound_and_are_recorded_in_order() -> None:
    running = most = 0
    gate = asyncio.Event()

    async def look(given: Path, call: ToolCall) -> ToolOutcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            gate.set()
        await asyncio.wait_for(gate.wait(), 60)
        running -= 1
        return ToolOutcome(content=given.path)

    script = [[calls("look", {"path": str(n)}) for n in range(7)], [says("Seen.")]]
    desk = Desk(script, tool("look", look, effect="pure"), parallel=3)
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).text == "Seen."
    assert most == 3
    assert [r["content"] for r in desk.results] == [str(n) for n in range(7)]
    ends = [event.data["callId"] for event in desk.disk.events if event.type == "tool_end"]
    assert ends == list(desk.disk.calls)


async def test_idempotent_calls_run_beside_each_other_where_no_two_touch_the_same() -> None:
    order: list[str] = []
    together: set[str] = set()
    inside: set[str] = set()

    async def put(given: Path, call: ToolCall) -> ToolOutcome:
        order.append(given.path)
        inside.add(call.id)
        await asyncio.sleep(0)  # the ones beside it begin
        together.add("+".join(sorted(calls_of[each] for each in inside)))
        inside.discard(call.id)
        return ToolOutcome(content=given.path)

    def made(
        name: str, effect: SideEffect, keys: Callable[[Path], list[str]] | None = lambda given: [given.path]
    ) -> Tool:
        return Tool(name=name, description=name, input_model=Path, effect=effect, run=put, keys=keys)

    asked = [
        *(("put", path) for path in "aba"),  # the second a waits for the first
        ("look", "c"),
        ("anything", "d"),  # which says nothing of what it touches
        *(("put", path) for path in "ef"),
        ("charge", "g"),
        ("put", "h"),
    ]
    script = [[calls(name, {"path": path}) for name, path in asked], [says("Done.")]]
    desk = Desk(
        script, made("put", "idempotent"), made("look", "pure"), made("anything", "idempotent", None),
        made("charge", "unsafe"), parallel=3,
    )  # fmt: skip
    await desk.loop.add_user("Go")
    calls_of = _Named(desk.disk)
    assert (await desk.loop.run()).text == "Done."
    assert order == list("abacdefgh") == [result["content"] for result in desk.results]
    assert together == {"a+b", "b", "a+c", "c", "d", "e+f", "f", "g", "h"}


class _Named:
    """What calls are about, by their ids."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getitem__(self, call_id: str) -> str:
        return str(self._disk.calls[call_id].input["path"])


async def test_killed_beside_each_other_both_run_again_under_their_own_ids() -> None:
    class Crash(BaseException):
        pass

    disk, acted = Disk(), list[tuple[str, str]]()

    def kit(*, dies: bool) -> Tool:
        async def put(given: Path, call: ToolCall) -> ToolOutcome:
            acted.append((given.path, call.id))
            await asyncio.sleep(0)
            if dies:
                raise Crash
            return ToolOutcome(content=given.path)

        return Tool(
            name="put",
            description="p",
            input_model=Path,
            effect="idempotent",
            run=put,
            keys=lambda given: [given.path],
        )

    desk = Desk([[calls("put", {"path": "a"}), calls("put", {"path": "b"})]], kit(dies=True), disk=disk)
    await desk.loop.add_user("Go")
    with pytest.raises(Crash):
        await desk.loop.run()
    assert [row.status for row in disk.calls.values()] == ["started", "started"]
    again = Desk([[says("Done.")]], kit(dies=False), disk=disk)
    assert (await again.loop.run()).text == "Done."
    assert [path for path, _ in acted] == ["a", "b", "a", "b"] and len({id for _, id in acted}) == 2
    assert [(row.status, row.attempt) for row in disk.calls.values()] == [("succeeded", 2)] * 2


async def test_all_that_wait_for_more_to_spend_are_put_back_and_what_was_done_beside_them_is_kept() -> None:
    allowed, ran = False, list[str]()

    async def look(given: Path, call: ToolCall) -> ToolOutcome:
        await asyncio.sleep(0)
        if given.path != "b" and not allowed:
            about = {"account": "x", "resource": "render", "limit": 1, "spent": 1, "held": 0, "wanted": 1}
            raise BudgetExceeded(given.path, context=about)
        ran.append(given.path)
        return ToolOutcome(content=given.path)

    script = [[calls("look", {"path": path}) for path in "abc"], [says("Seen.")]]
    desk = Desk(script, tool("look", look, effect="pure"))
    await desk.loop.add_user("Go")
    for _ in range(4):  # more often than a call that brings its process down is begun
        outcome = await desk.loop.run()
        assert (outcome.kind, outcome.text) == ("paused", "a") and ran == ["b"]
        rows = [(row.status, row.attempt) for row in desk.disk.calls.values()]
        assert rows == [("approved", 0), ("succeeded", 1), ("approved", 0)], "a pause is no attempt"
    allowed = True
    assert (await desk.loop.run()).text == "Seen." and ran == ["b", "a", "c"]
    assert [result["content"] for result in desk.results] == ["a", "b", "c"]


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

    desk = Desk([])
    endless = Endless([])
    desk.is_answered_by(endless)
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

    desk = Desk([[calls("echo", {"path": "a"})], [says("Done.")]], disk=disk)
    desk.loop._log._journal = Slow(disk)  # type: ignore[attr-defined]
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

    desk = Desk([[calls("echo", {"path": "a"})], [says("Done.")]], tool("echo", echo, effect="idempotent"), disk=disk)
    desk.loop._log._journal = Flaky(disk)  # type: ignore[attr-defined]
    await desk.loop.add_user("Go")
    with pytest.raises(OSError):
        await desk.loop.run()
    assert (await desk.loop.run()).text == "Done."
    assert [(r.status, r.attempt) for r in disk.calls.values()] == [("succeeded", 2)]


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
