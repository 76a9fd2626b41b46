"""An agent by itself: functions as tools, one file, a real model's protocol, and a program that is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
from pydantic import Field

from koda_ray.agent import Agent, AgentPool, LoopEvent, Member, Room, Runtime, TextDelta, tool
from koda_ray.agent.toolkit import ToolCall, Toolkit, ToolOutcome
from koda_ray.errors import Cancelled, Conflict, Fenced, InvalidInput, InvalidTransition, Missing
from koda_ray.events import Envelope
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.state.sql import SqlStore
from tests.llm.server import Call, ModelServer, ScriptedModel, call, last_text, reply, results


@tool(effect="pure")
def add(a: int, b: Annotated[int, Field(ge=0, description="Not below zero.")] = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="idempotent")
async def mark(what: str, call: ToolCall) -> dict[str, str]:
    """Mark something."""
    return {"what": what, "key": call.id}


@asynccontextmanager
async def served(*steps: Any) -> AsyncIterator[AnthropicProvider]:
    """A provider whose model answers step by step."""
    with ModelServer(ScriptedModel(steps)) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        yield provider
        await provider.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


# --- functions as tools -------------------------------------------------------------------------------------------


def test_a_signature_is_the_schema_and_a_docstring_the_description() -> None:
    (spec,) = Toolkit([add]).specs
    assert (spec.name, spec.description, add.effect) == ("add", "Add two numbers.", "pure")
    assert spec.input_schema["required"] == ["a"]
    assert spec.input_schema["properties"]["b"] == {  # type: ignore[index,call-overload]
        "default": 1, "description": "Not below zero.", "minimum": 0, "title": "B", "type": "integer"
    }  # fmt: skip
    assert "call" not in json.dumps(Toolkit([mark]).specs[0].input_schema)


def test_what_cannot_be_a_tool_is_refused_with_its_name() -> None:
    def silent(a: int) -> int:
        return a

    def untyped(a):  # type: ignore[no-untyped-def]
        """Say."""
        return a

    def many(*a: int) -> int:
        """Say."""
        return sum(a)

    def once(a: int) -> int:
        """Say."""
        return a

    def elsewhere(a: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
        """Say."""
        return 1

    for function, says in (
        (elsewhere, "'Nowhere'"),
        (silent, "'silent' has no docstring"),
        (untyped, "'a' of the tool"),
        (many, r"\*a"),
    ):
        with pytest.raises(InvalidInput, match=says):
            tool(function)
    with pytest.raises(InvalidInput, match="two tools"):
        Agent("x", [add, add])
    with pytest.raises(InvalidInput, match="'once' has no parameter 'c'"):
        tool(keys=["a", "c"])(once)


async def test_functions_that_say_what_they_work_on_run_at_once_where_that_is_not_the_same(path: Path) -> None:
    inside: list[str] = []
    beside: list[tuple[str, ...]] = []

    @tool(effect="idempotent", keys=["file", "others"])
    async def save(file: str, others: list[str]) -> str:
        """Save files."""
        inside.append(file)
        await asyncio.sleep(0)  # the ones beside it begin
        beside.append(tuple(sorted(inside)))
        inside.remove(file)
        return file

    files = [("a", ["b"]), ("c", []), ("b", [])]  # the last was named by the first
    asked = reply(*(Call("save", {"file": file, "others": others}) for file, others in files))
    async with (
        served(asked, reply("Saved.")) as provider,
        Agent("disk", [save], runtime=Runtime(provider=provider, store=path)) as agent,
    ):
        assert (await agent.run("Save.")).text == "Saved."
        assert beside == [("a", "c"), ("c",), ("b",)]


async def test_a_plain_function_is_one_that_may_not_run_twice() -> None:
    def charge(amount: float) -> ToolOutcome:
        """Charge."""
        return ToolOutcome(content=str(amount))

    made = tool(charge)
    assert (made.effect, made.name) == ("unsafe", "charge")
    bound = Toolkit([made]).bind("charge", {"amount": "much"})
    assert isinstance(bound, ToolOutcome) and "amount" in bound.content


@pytest.mark.parametrize("end", ["timeout", "cancel"])
async def test_a_plain_function_that_is_cut_off_goes_on_and_is_not_called_stopped(path: Path, end: str) -> None:
    begun, gate, paid = threading.Event(), threading.Event(), threading.Event()

    @tool(timeout_s=1.0 if end == "timeout" else 60.0)
    def pay() -> str:
        """Pay."""
        begun.set()
        gate.wait(120)
        paid.set()
        return "paid"

    async with (
        served(call("pay"), reply("I look first.")) as provider,
        Agent("x", [pay], runtime=Runtime(provider=provider, store=path)) as agent,
    ):
        running = asyncio.create_task(agent.run("Pay."))
        assert await asyncio.to_thread(begun.wait, 60)
        if end == "cancel":
            await agent.cancel()
            with pytest.raises(Cancelled):
                await running
        else:
            await running
        (made,) = await agent.calls()
        assert isinstance(made.result, dict) and made.result["retryable"] is False
        assert "It could not be stopped" in str(made.result["content"]) and not paid.is_set()
        gate.set()
        assert await asyncio.to_thread(paid.wait, 60)


async def test_what_is_async_is_stopped_and_said_to_be(path: Path) -> None:
    ended: list[str] = []

    async def wait(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    @tool(timeout_s=0.05)
    async def pay() -> None:
        """Pay."""
        await wait("pay")

    @tool(timeout_s=0.05, effect="idempotent")
    async def put() -> None:
        """Put."""
        await wait("put")

    @tool(timeout_s=0.05, effect="pure")
    async def look() -> None:
        """Look."""
        await wait("look")

    steps = served(call("pay"), call("put"), call("look"), reply("No."))
    async with steps as provider, Agent("x", [pay, put, look], runtime=Runtime(provider=provider, store=path)) as agent:
        await agent.run("Go.")
        errors = [json.loads(str(cast("Any", each.result)["content"]))["error"] for each in await agent.calls()]
    assert ended == ["pay", "put", "look"]
    assert [error["retryable"] for error in errors] == [False, False, True]
    assert ["It was stopped and may have done part" in error["message"] for error in errors] == [True, True, False]
    assert "Its result is not waited for." in errors[2]["message"]


# --- running ------------------------------------------------------------------------------------------------------


async def test_it_calls_functions_and_says_what_it_found(path: Path) -> None:
    def last(request: Any) -> object:
        assert [each["content"] for each in results(request)] == ["5"]
        return reply("It is five.")

    heard: list[str] = []

    async def hear(event: LoopEvent) -> None:
        if isinstance(event, TextDelta):
            heard.append(event.text)

    async with (
        served(call("add", {"a": 2, "b": 3}), last) as provider,
        Agent("sums", [add], runtime=Runtime(provider=provider, store=path), on_event=hear) as agent,
    ):
        done = await agent.run("Two and three?")
        assert (done.kind, done.text, "".join(heard)) == ("end_turn", "It is five.", "It is five.")
        (made,) = await agent.calls()
        assert (made.name, made.status, made.attempt) == ("add", "succeeded", 1)


async def test_the_same_name_goes_on_and_another_begins(path: Path) -> None:
    def remembers(request: Any) -> object:
        assert last_text(request) == "And now?"
        return reply("I remember." if "Hello." in json.dumps(request) else "Who are you?")

    async with served(reply("Hello."), remembers, remembers) as provider:
        async with Agent("ann", runtime=Runtime(provider=provider, store=path)) as agent:
            await agent.run("Hello?")
            first = agent.id
        async with Agent("ann", runtime=Runtime(provider=provider, store=path)) as agent:
            assert (agent.id, (await agent.run("And now?")).text) == (first, "I remember.")
        async with Agent("bob", runtime=Runtime(provider=provider, store=path)) as agent:
            assert (await agent.run("And now?")).text == "Who are you?"


async def test_what_is_said_under_a_key_is_said_once(path: Path) -> None:
    async with served(reply("Yes.")) as provider, Agent("ann", runtime=Runtime(provider=provider, store=path)) as agent:
        assert (await agent.run("Really?", key="one")).text == "Yes."
        assert (await agent.run("Really?", key="one")).text == "Yes."
        with pytest.raises(Conflict, match="'one'"):
            await agent.run("No?", key="one")
        assert [each.role for each in await agent.messages()] == ["user", "assistant"]


async def test_a_person_is_waited_for_across_programs(path: Path) -> None:
    def ask(question: str) -> ToolOutcome:
        """Ask the person."""
        return ToolOutcome(content=question, suspend=True)

    def last(request: Any) -> object:
        assert results(request)[-1]["content"] == "blue"
        return reply("Blue it is.")

    async with served(call("ask", {"question": "Which?"}), last) as provider:
        async with Agent("ann", [ask], runtime=Runtime(provider=provider, store=path)) as agent:
            asked = await agent.run("Paint it.")
            assert asked.kind == "suspended" and asked.suspended_call_id is not None
        async with Agent("ann", [ask], runtime=Runtime(provider=provider, store=path)) as agent:
            assert (await agent.run()).suspended_call_id == asked.suspended_call_id
            assert (await agent.answer(asked.suspended_call_id, "blue")).text == "Blue it is."


async def test_events_are_read_from_any_place_and_come_as_they_happen(path: Path) -> None:
    async with (
        served(call("add", {"a": 1}), reply("Two."), reply("Still two.")) as provider,
        Agent("ann", [add], runtime=Runtime(provider=provider, store=path)) as agent,
    ):
        await agent.run("One and one?")
        seen: list[Envelope] = []
        stream: AsyncIterator[Envelope] = agent.events()
        async for event in stream:
            seen.append(event)
            done = [each.type for each in seen].count("done")
            if done == 1 and event.type == "done":
                await agent.run("Sure?")
            if done == 2:
                break
        assert [each.seq for each in seen] == list(range(1, len(seen) + 1))
        told = [each.type for each in seen[1:] if each.type != "breakpoint_change"]
        answer = ["text_chunk", "usage", "message", "done"]
        assert told == ["usage", "message", "tool_start", "tool_end", *answer, *answer]
        after = [event.seq async for event in _until(agent.events(after=4), 6)]
        assert after == [5, 6]


async def _until(events: AsyncIterator[Envelope], last: int) -> AsyncIterator[Envelope]:
    async for event in events:
        yield event
        if event.seq == last:
            return


@pytest.mark.full
async def test_who_opens_it_last_has_it(path: Path) -> None:
    async with (
        served(reply("One."), reply("Two.")) as provider,
        Agent("ann", runtime=Runtime(provider=provider, store=path)) as first,
    ):
        async with Agent("ann", runtime=Runtime(provider=provider, store=path)) as second:
            await second.run("Hello?")
            with pytest.raises(Fenced):
                await first.run("Me too?")
        assert len(await first.messages()) == 2


async def test_a_tool_is_told_which_activation_calls_so_that_the_world_can_refuse_a_replaced_one(path: Path) -> None:
    told: list[int] = []

    def touch(call: ToolCall) -> str:
        """Touch it."""
        told.append(call.epoch)
        return "touched"

    async with served(call("touch"), reply("Once."), call("touch"), reply("Twice.")) as provider:
        for _ in range(2):
            async with Agent("ann", [touch], runtime=Runtime(provider=provider, store=path)) as agent:
                await agent.run("Touch it.")
    assert told == [1, 2]


async def test_a_store_that_is_given_stays_open(path: Path) -> None:
    store = SqlStore(path)
    await store.open()
    async with (
        served(reply("Yes.")) as provider,
        Agent("ann", runtime=Runtime(provider=provider, store=store)) as agent,
    ):
        await agent.run("There?")
    assert [row.status for row in await store.list_sessions("local")] == ["suspended"]
    await store.close()


async def test_without_a_key_or_unopened_it_says_what_to_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    agent = Agent("ann", runtime=Runtime(store=path))
    with pytest.raises(InvalidTransition, match="async with"):
        await agent.run("Hello?")
    with pytest.raises(Missing, match="ANTHROPIC_API_KEY"):
        await agent.open()
    assert not path.exists()


# --- a program that is killed -------------------------------------------------------------------------------------

_PROGRAM = """
import asyncio, os, sys, time
from koda_ray.agent import Agent, tool
from koda_ray.agent.toolkit import ToolCall

def line(text):
    with open("world.txt", "a") as file:
        file.write(text + "\\n")

@tool(effect="idempotent")
def order(what: str, call: ToolCall) -> str:
    '''Order something.'''
    line(f"order {what} {call.id}")
    time.sleep(60 if os.environ.get("SLOWLY") == "order" else 0)
    return "ordered"

@tool
def pay(amount: int) -> str:
    '''Pay.'''
    line(f"pay {amount}")
    time.sleep(60 if os.environ.get("SLOWLY") == "pay" else 0)
    return "paid"

@tool(effect="pure")
def paid() -> list[str]:
    '''Look at what was paid.'''
    return [text.split()[1] for text in open("world.txt") if text.startswith("pay")]

async def main():
    async with Agent("buyer", [order, pay, paid]) as agent:
        print((await agent.run("Buy a chair for 40.", key="chair")).text)

asyncio.run(main())
"""


def _buyer(request: Any) -> Any:
    """Order, pay, and where nobody knows whether it was paid, look."""
    done = results(request)
    names = [each["name"] for each in done]
    if "order" not in names:
        return call("order", {"what": "chair"})
    if "pay" not in names:
        return call("pay", {"amount": 40})
    if next(each for each in done if each["name"] == "pay")["is_error"] and "paid" not in names:
        return call("paid")
    return reply("Bought.")


@pytest.fixture
def program(tmp_path: Path) -> Iterator[tuple[list[str], dict[str, str], Path]]:
    with ModelServer(ScriptedModel(_buyer)) as server:
        environment = {**os.environ, "ANTHROPIC_API_KEY": "test-key", "ANTHROPIC_BASE_URL": server.base_url}
        yield [sys.executable, "-c", _PROGRAM], environment, tmp_path


@pytest.mark.parametrize("moment", ["order", "pay"])
@pytest.mark.full
def test_a_killed_program_goes_on_and_pays_once(program: tuple[list[str], dict[str, str], Path], moment: str) -> None:
    command, environment, folder = program
    world = folder / "world.txt"
    victim = subprocess.Popen(command, cwd=folder, env={**environment, "SLOWLY": moment})
    deadline = time.monotonic() + 60
    while not (world.exists() and moment in world.read_text()):
        assert time.monotonic() < deadline and victim.poll() is None
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    again = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert again.stdout == "Bought.\n"
    lines = world.read_text().splitlines()
    assert lines.count("pay 40") == 1
    orders = [text for text in lines if text.startswith("order")]
    assert len(set(orders)) == 1 and len(orders) == (2 if moment == "order" else 1)  # the same call, by its key
    once_more = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    assert once_more.stdout == "Bought.\n" and world.read_text().splitlines() == lines


async def test_a_store_in_a_folder_is_named_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = f"json:{tmp_path / 'kept'}"
    async with served(*[reply(f"Answer {n}.") for n in range(4)]) as provider:
        async with Agent("ann", runtime=Runtime(provider=provider, store=folder)) as agent:
            assert (await agent.run("One?")).text == "Answer 0."
        runtime = Runtime(provider=provider, store=folder)
        async with AgentPool(lambda name, runtime: Agent(name, runtime=runtime), runtime=runtime) as pool:
            assert (await pool.ask("ann", "Two?")).text == "Answer 1."
        async with Room("desk", [Member(name="bob")], runtime=Runtime(provider=provider, store=folder)) as room:
            assert [each.text for each in (await room.run("@bob, three?")).said][-1:] == ["Answer 2."]
        async with Agent("ann", runtime=Runtime(provider=provider, store="json:kept")) as agent:
            assert len(await agent.messages()) == 4
    assert [each.name for each in tmp_path.iterdir()] == ["kept"] and (tmp_path / "kept").is_dir()
    for make in (
        lambda: Agent("ann", runtime=Runtime(store="json:")),
        lambda: Room("desk", [Member(name="bob")], runtime=Runtime(store="json://")),
    ):
        with pytest.raises(InvalidInput, match="names no folder"):
            make()
