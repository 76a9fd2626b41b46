"""Hooks before and after model and tool calls: they look on, change, answer in place, stop, fail and take too long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from koda_ray.agent.breakpoints import Breakpoint
from koda_ray.agent.hooks import Hook, Stop
from koda_ray.agent.loop import AgentLoop, Limits
from koda_ray.agent.permissions import Permissions, Rule
from koda_ray.agent.spec import ModelAccess, Policy, Prompt
from koda_ray.agent.toolkit import Tool, ToolCall, Toolkit, ToolOutcome
from koda_ray.errors import Fenced, StorageError
from koda_ray.events import NewEvent
from koda_ray.llm.base import Block, Completed, Message, ModelRequest
from koda_ray.state.records import Batch, SideEffect
from tests.agent.journals import ME, Disk, MemoryJournal
from tests.agent.scripted import Break, Given, Provider, calls, says
from tests.llm.server import results


class Text(BaseModel):
    text: str


class Desk:
    """A loop with hooks, over a disk that outlives it."""

    def __init__(
        self,
        model: Callable[[Given], Sequence[Block]] | Sequence[Sequence[Block] | Break],
        *hooks: Hook,
        disk: Disk | None = None,
        effect: SideEffect = "unsafe",
        permissions: Permissions | None = None,
        tick: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.disk = disk or Disk()
        self.provider = Provider(model)
        self.ran: list[str] = []
        self.batch: Batch | None = None
        self.loop = AgentLoop(
            ME,
            access=ModelAccess(provider=self.provider, model="m", prompt=Prompt(system=("One.",))),
            toolkit=Toolkit([Tool(name="echo", description="Echo.", input_model=Text, effect=effect, run=self._echo)]),
            journal=MemoryJournal(self.disk, tick),
            policy=Policy(limits=Limits(first_wait_s=0.001), permissions=permissions or Permissions(), hooks=hooks),
        )

    async def _echo(self, given: Text, call: ToolCall) -> ToolOutcome:
        self.ran.append(given.text)
        return ToolOutcome(content=f"said {given.text}", batch=self.batch)

    async def run(self, text: str = "Go") -> Any:
        if not self.disk.messages:
            await self.loop.add_user(text)
        return await self.loop.run()

    @property
    def results(self) -> list[dict[str, Any]]:
        return results(self.provider.requests[-1])

    @property
    def failures(self) -> list[dict[str, Any]]:
        return [dict(event.data) for event in self.disk.events if event.type == "hook_failed"]


ECHO = [[says("Now."), calls("echo", {"text": "a"})], [says("Done.")]]


async def test_all_four_places_are_heard_in_order_and_change_nothing_by_looking() -> None:
    heard: list[str] = []

    def looks(name: str) -> Hook:
        async def before_model(request: ModelRequest) -> None:
            heard.append(f"{name} before_model {len(request.messages)}")

        async def after_model(request: ModelRequest, completed: Completed) -> None:
            heard.append(f"{name} after_model {completed.stop_reason}")

        async def before_tool(call: ToolCall, given: dict[str, Any]) -> None:
            heard.append(f"{name} before_tool {call.name} {given['text']}")

        async def after_tool(call: ToolCall, outcome: ToolOutcome) -> None:
            heard.append(f"{name} after_tool {outcome.content}")

        return Hook(
            name=name,
            before_model=before_model,
            after_model=after_model,
            before_tool=before_tool,
            after_tool=after_tool,
        )

    desk = Desk(ECHO, looks("x"), looks("y"))
    assert (await desk.run()).text == "Done."
    steps = ["before_model 1", "after_model tool_use", "before_tool echo a", "after_tool said a"]
    steps += ["before_model 3", "after_model end_turn"]
    assert heard == [f"{name} {step}" for step in steps for name in ("x", "y")]
    assert desk.failures == []


async def test_each_gets_what_the_one_before_made_of_it() -> None:
    async def louder(call: ToolCall, given: dict[str, Any]) -> dict[str, Any]:
        return {"text": given["text"] + "!"}

    async def shorter(call: ToolCall, outcome: ToolOutcome) -> ToolOutcome:
        return replace(outcome, content=outcome.content[:-1])

    async def other(request: ModelRequest) -> ModelRequest:
        return replace(request, system=(*request.system, "Be brief."))

    async def redacted(request: ModelRequest, completed: Completed) -> Completed:
        content = tuple(
            {**block, "text": block["text"].replace("Done", "***")} if block["type"] == "text" else block
            for block in completed.message.content
        )
        return replace(completed, message=Message(role="assistant", content=content))  # type: ignore[arg-type]

    hooks = [Hook(name=name, before_tool=louder, after_tool=shorter) for name in "ab"]
    desk = Desk(ECHO, *hooks, Hook(name="c", before_model=other, after_model=redacted))
    assert (await desk.run()).text == "***."
    assert desk.ran == ["a!!"]
    assert desk.results[0]["content"] == "The input of this call was changed before it ran. said a"
    assert [part["text"] for part in desk.provider.requests[0]["system"]] == ["One.", "Be brief."]
    (row,) = desk.disk.calls.values()
    assert row.input == {"text": "a!!"}


async def test_what_a_hook_makes_of_an_input_is_checked_and_needs_permission() -> None:
    async def spoils(call: ToolCall, given: dict[str, Any]) -> dict[str, Any]:
        return {"words": 1}

    async def widens(call: ToolCall, given: dict[str, Any]) -> dict[str, Any]:
        return {"text": "secret"}

    desk = Desk(ECHO, Hook(name="spoils", before_tool=spoils))
    await desk.run()
    assert desk.ran == [] and "INVALID_INPUT" in desk.results[0]["content"]
    rules = Permissions(rules=[Rule(decision="deny", arguments={"text": "secret"})])
    desk = Desk(ECHO, Hook(name="widens", before_tool=widens), permissions=rules)
    await desk.run()
    assert desk.ran == [] and "NOT_ALLOWED" in desk.results[0]["content"]


async def test_an_outcome_in_place_of_running() -> None:
    async def cached(call: ToolCall, given: dict[str, Any]) -> ToolOutcome:
        return ToolOutcome(content="from memory")

    desk = Desk(ECHO, Hook(name="cache", before_tool=cached))
    assert (await desk.run()).text == "Done."
    assert desk.ran == [] and desk.results[0]["content"] == "from memory" and not desk.results[0]["is_error"]


async def test_a_stop_ends_the_run_and_the_next_goes_on_from_there() -> None:
    for place in ("before_model", "after_model", "before_tool", "after_tool"):
        stops = [Stop("enough for today")]

        async def once(*_: object, left: list[Stop] = stops) -> Stop | None:
            return left.pop() if left else None

        disk = Disk()
        first = Desk(ECHO, Hook(name="brake", **{place: once}), disk=disk)  # type: ignore[arg-type]
        outcome = await first.run()
        assert (outcome.kind, outcome.text) == ("stopped", "enough for today"), place
        assert first.loop.breakpoint is Breakpoint.READY
        assert first.ran == (["a"] if place == "after_tool" else [])
        left = ECHO if place == "before_model" else ECHO[1:]
        second = Desk(left, Hook(name="brake", **{place: once}), disk=disk)  # type: ignore[arg-type]
        assert (await second.run()).text == "Done.", place
        assert first.ran + second.ran == ["a"], place


async def test_one_that_fails_or_hangs_is_reported_and_does_what_it_said() -> None:
    async def fails(*_: object) -> None:
        raise RuntimeError("no disk")

    async def hangs(*_: object) -> None:
        await asyncio.sleep(60)

    desk = Desk(ECHO, Hook(name="log", before_tool=fails, after_model=hangs, timeout_s=0.02))
    assert (await desk.run()).text == "Done."
    assert desk.ran == ["a"]
    told = [(one["hook"], one["place"], one["then"]) for one in desk.failures]
    assert told == [
        ("log", "after_model", "ignore"),
        ("log", "before_tool", "ignore"),
        ("log", "after_model", "ignore"),
    ]
    assert "took longer than 0.02 s" in desk.failures[0]["message"] and "no disk" in desk.failures[1]["message"]
    strict = Desk(ECHO, Hook(name="audit", before_tool=fails, on_failure="stop"))
    outcome = await strict.run()
    assert outcome.kind == "stopped" and "audit" in outcome.text and "no disk" in outcome.text
    assert strict.ran == []
    assert json.dumps(strict.failures)


async def test_what_is_raised_before_there_is_anything_to_await_is_a_failure_too() -> None:
    def plain(*_: object) -> Any:
        raise RuntimeError("no disk")

    def nothing(*_: object) -> Any:
        return None  # not even awaitable

    places = ("before_model", "after_model", "before_tool", "after_tool")
    for given, words in ((plain, "no disk"), (nothing, "NoneType"), (lambda: None, "argument")):
        desk = Desk(ECHO, Hook(name="log", **dict.fromkeys(places, given)))  # type: ignore[arg-type]
        assert (await desk.run()).text == "Done."
        assert desk.ran == ["a"] and {one["place"] for one in desk.failures} == set(places)
        assert all(words in one["message"] for one in desk.failures)
        for place in places:
            strict = Desk(ECHO, Hook(name="audit", on_failure="stop", **{place: given}))  # type: ignore[arg-type]
            outcome = await strict.run()
            assert outcome.kind == "stopped" and words in outcome.text, place


async def test_calls_beside_each_other_are_each_heard_once() -> None:
    heard: list[str] = []

    async def note(call: ToolCall, given: dict[str, Any]) -> ToolOutcome | None:
        heard.append(given["text"])
        return ToolOutcome(content="no", is_error=True) if given["text"] == "b" else None

    three = [[calls("echo", {"text": text}) for text in "abc"], [says("Done.")]]
    desk = Desk(three, Hook(name="note", before_tool=note), effect="pure")
    assert (await desk.run()).text == "Done."
    assert heard == ["a", "b", "c"] and desk.ran == ["a", "c"]
    assert [one["content"] for one in desk.results] == ["said a", "no", "said c"]


@pytest.mark.parametrize("end", ["run", "refused", "asked"])
async def test_a_call_that_was_taken_back_is_heard_again(end: str) -> None:
    heard: list[str] = []

    async def look(call: ToolCall, given: dict[str, Any]) -> ToolOutcome | None:
        heard.append(call.id)
        return ToolOutcome(content="no") if end == "refused" else None

    permissions = Permissions(mode="ask") if end == "asked" else None
    desk = Desk([*ECHO, ECHO[1]], Hook(name="look", before_tool=look), permissions=permissions)

    async def whole() -> None:
        outcome = await desk.run()
        if end == "asked":
            assert outcome.kind == "suspended"
            await desk.loop.approve(outcome.suspended_call_id or "")
            outcome = await desk.run()
        assert outcome.text == "Done."

    await whole()
    assert len(heard) == 1
    for message in desk.disk.history()[2:]:
        del desk.disk.messages[message.id]
    desk.disk.calls.clear()
    await desk.loop.reload()
    await whole()
    assert heard == [heard[0]] * 2


async def test_what_is_said_while_a_hook_thinks_is_answered_next() -> None:
    desk: Desk

    async def slow(request: ModelRequest) -> None:
        if len(request.messages) == 1:
            await desk.loop.add_user("Wait!")

    def model(request: Given) -> Sequence[Block]:
        return [says("Stopped." if "Wait!" in json.dumps(request) else "Going.")]

    desk = Desk(model, Hook(name="slow", before_model=slow))
    assert (await desk.run()).text == "Stopped."
    assert [message.role for message in desk.disk.history()] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("found", ["x", 0, 7, [], {"text": {1}}, ToolOutcome(content=5), Completed])  # type: ignore[arg-type]
async def test_what_a_hook_may_not_return_is_its_failure(found: Any) -> None:
    async def returns(*_: object) -> Any:
        return found

    places = ("before_model", "after_model", "before_tool", "after_tool")
    for place in places:
        desk = Desk(ECHO, Hook(name="odd", **{place: returns}))
        assert (await desk.run()).text == "Done." and desk.ran == ["a"]
        assert {(one["hook"], one["place"]) for one in desk.failures} == {("odd", place)}
        assert desk.results[0]["content"] == "said a"
        strict = Desk(ECHO, Hook(name="audit", on_failure="stop", **{place: returns}))
        assert (await strict.run()).kind == "stopped"
        (failure,) = strict.failures
        assert "returned" in failure["message"] or "valid" in failure["message"]
        assert strict.ran == (["a"] if place == "after_tool" else [])
        assert [row.status for row in strict.disk.calls.values()] == (["succeeded"] if strict.ran else [])


async def test_what_a_hook_edits_in_place_changes_nothing() -> None:
    kept: list[Any] = []

    async def before_model(request: ModelRequest) -> None:
        for message in request.messages:
            for block in message.content:
                block.clear()  # type: ignore[attr-defined]
        request.tools[0].input_schema.clear()

    async def after_model(request: ModelRequest, completed: Completed) -> None:
        for block in completed.message.content:
            block.get("input", {}).clear()  # type: ignore[attr-defined]

    async def before_tool(call: ToolCall, given: dict[str, Any]) -> dict[str, Any] | None:
        given["text"] = "edited"
        kept.append({"text": "b"})
        return kept[-1] if len(kept) == 2 else None

    async def after_tool(call: ToolCall, outcome: ToolOutcome) -> None:
        outcome.content = "edited"
        kept[-1]["text"] = "too late"

    one = Hook(name="one", before_model=before_model, after_model=after_model, before_tool=before_tool)
    desk = Desk([*ECHO, [says("Yes.")]], one, replace(one, name="two", after_tool=after_tool))
    assert (await desk.run()).text == "Done."
    assert (
        desk.ran == ["b"] and desk.results[0]["content"] == "The input of this call was changed before it ran. said b"
    )
    (row,) = desk.disk.calls.values()
    assert row.input == {"text": "b"}
    await desk.loop.add_user("And?")
    assert (await desk.run()).text == "Yes."
    shown = [block for message in desk.provider.requests[-1]["messages"] for block in message["content"]]
    stored = [message.content for message in desk.disk.history()]
    # what the model is shown next comes from memory, and is what was stored
    assert [block["input"] for block in shown if block["type"] == "tool_use"] == [{"text": "a"}]
    assert [block["text"] for block in shown if block["type"] == "text"] == ["Go", "Now.", "Done.", "And?"]
    assert "edited" not in json.dumps(stored) and "late" not in json.dumps(stored)
    assert desk.provider.requests[-1]["tools"][0]["input_schema"]["properties"]


@pytest.mark.parametrize("how", ["cancelled", "fenced", "exits", "unreported"])
async def test_an_effect_that_happened_is_recorded_whatever_comes_in_between(how: str) -> None:
    inside = asyncio.Event()

    async def after_tool(call: ToolCall, outcome: ToolOutcome) -> None:
        inside.set()
        if how == "cancelled":
            await asyncio.sleep(60)
        if how == "fenced":
            raise Fenced("somebody else has it")
        if how == "exits":
            raise SystemExit(3)
        raise RuntimeError("no disk")

    def tick(what: str) -> None:
        nonlocal lost
        if inside.is_set() and how == "unreported" and not lost and what == "before commit":
            lost = True
            raise StorageError("the store is away")

    lost = False
    desk = Desk(ECHO, Hook(name="log", after_tool=after_tool, timeout_s=30), tick=tick)
    with pytest.raises((asyncio.CancelledError, Fenced, SystemExit, StorageError)):
        if how == "cancelled":
            running = asyncio.ensure_future(desk.run())
            async with asyncio.timeout(60):
                await inside.wait()
            running.cancel()
            await running
        await desk.run()
    (row,) = desk.disk.calls.values()
    assert row.status == "succeeded" and desk.ran == ["a"]
    again = Desk(ECHO[1:], disk=desk.disk)
    assert (await again.run()).text == "Done." and again.ran == []
    assert again.results[0]["content"] == "said a"


async def test_what_a_hook_made_of_an_outcome_is_recorded_though_its_first_commit_failed() -> None:
    async def redacts(call: ToolCall, outcome: ToolOutcome) -> ToolOutcome:
        armed.append("failing")
        return ToolOutcome(content="said ***")

    def tick(what: str) -> None:
        if armed and what == "before commit":
            armed.pop()
            raise StorageError("the store is away")

    armed: list[str] = []
    desk = Desk(ECHO, Hook(name="redact", after_tool=redacts), tick=tick)
    with pytest.raises(StorageError):
        await desk.run()
    again = Desk(ECHO[1:], disk=desk.disk)
    assert (await again.run()).text == "Done." and again.results[0]["content"] == "said ***"


async def test_what_a_tool_wants_stored_with_its_outcome_stays_whatever_a_hook_says() -> None:
    async def anew(call: ToolCall, outcome: ToolOutcome) -> ToolOutcome:
        assert outcome.batch is None
        own = Batch(events=[NewEvent(type="thinking", data={"text": "the hook's"})])
        return ToolOutcome(content="other", batch=own)

    desk = Desk(ECHO, Hook(name="anew", after_tool=anew))
    desk.batch = Batch(events=[NewEvent(type="thinking", data={"text": "the tool's"})])
    assert (await desk.run()).text == "Done." and desk.results[0]["content"] == "other"
    thought = [event.data["text"] for event in desk.disk.events if event.type == "thinking"]
    assert thought == ["the tool's", "the hook's"]
