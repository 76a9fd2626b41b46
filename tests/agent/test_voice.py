"""What one hears of an agent: its words as they come, what it said, that it is done, and every breakpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koda_ray.agent import Agent, Delegation, Hook, Member, Room, Runtime, Stop, tool
from koda_ray.agent.limits import Limits
from koda_ray.agent.permissions import Permissions
from koda_ray.agent.spec import Policy
from koda_ray.agent.toolkit import Tool
from koda_ray.agent.voice import PIECE_S
from koda_ray.errors import Cancelled, InvalidInput, ModelStreamBroken
from koda_ray.events import Envelope
from koda_ray.llm.base import Completed, Message, ModelEvent, ModelRequest, ModelSwitched, TextDelta, Usage
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store
from koda_ray.types import Budget
from tests.agent.scripted import Break, Provider, calls, says


@tool(effect="idempotent")
async def add(a: int) -> str:
    """Add."""
    return str(a + 1)


@asynccontextmanager
async def told_by(
    store: Store | Path,
    model: Any,
    tools: Sequence[Tool] = (add,),
    *,
    budget: Budget | None = None,
    subagents: Delegation | None = None,
    **policy: Any,
) -> AsyncIterator[Agent]:
    provider = model if hasattr(model, "stream") else Provider(model)
    runtime = Runtime(provider=provider, store=store, budget=budget)
    async with Agent("ann", tools, runtime=runtime, policy=Policy(**policy), subagents=subagents) as agent:
        yield agent


async def heard(agent: Agent | Room, channels: Any = None, *, after: int = 0) -> list[Envelope]:
    """Read what there is by now."""
    last = (await agent.runtime.store.get_session(agent.id)).seq
    wanted = [event async for event in _until(agent, last)]
    if channels is None:
        return [event for event in wanted if event.seq > after]
    names = {channels} if isinstance(channels, str) else set(channels)
    count = sum(event.channel in names and event.seq > after for event in wanted)
    found: list[Envelope] = []
    stream = agent.events(after=after, channels=channels)
    async with asyncio.timeout(60):
        while len(found) < count:
            found.append(await anext(stream))
    await stream.aclose()
    return found


async def _until(agent: Agent | Room, last: int) -> AsyncIterator[Envelope]:
    async for event in agent.events():
        yield event
        if event.seq == last:
            return


def of(events: Sequence[Envelope], *types: str) -> list[dict[str, Any]]:
    return [dict(event.data) for event in events if event.type in types]


async def test_a_whole_run_is_heard_on_its_channels(store: Store) -> None:
    model = [[says("I add."), calls("add", {"a": 1})], [says("Two.")]]
    async with told_by(store, model) as agent:
        await agent.run("One and one?")
        everything = await heard(agent)
        progress = await heard(agent, "progress")
        assert [event.type for event in progress] == [
            "text_chunk", "message", "tool_start", "tool_end", "text_chunk", "message", "done"
        ]  # fmt: skip
        first, last = of(progress, "message")
        stored = [message for message in await agent.messages() if message.role == "assistant"]
        assert [event.cause_id for event in progress if event.type == "message"] == [each.id for each in stored]
        (call,) = await agent.calls()
        assert first == {"agent": "ann", "role": "assistant", "content": "I add.", "calls": [call.id]}
        assert (last["content"], last["calls"]) == ("Two.", [])
        assert of(progress, "done") == [{"agent": "ann", "outcome": "end_turn", "text": "Two."}]
        monitor = await heard(agent, ["monitor"])
        assert {event.type for event in monitor} == {"breakpoint_change", "usage"}
        assert [event.type for event in await heard(agent, "control")] == ["state_change"]
        both = await heard(agent, ["progress", "control"], after=1)
        assert [event.seq for event in both] == [event.seq for event in progress]
        assert len(everything) == len(progress) + len(monitor) + 1


async def test_a_channel_that_is_none_is_refused_with_those_that_are(tmp_path: Path) -> None:
    async with told_by(tmp_path / "a.db", []) as agent:
        for wrong in ("progres", ["progress", "progres"]):
            with pytest.raises(InvalidInput, match="'progres'; the channels are progress, control, monitor"):
                await anext(agent.events(channels=wrong))  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="no channel is named"):
            await anext(agent.events(channels=[]))


async def test_every_breakpoint_is_stored_before_what_it_stands_for(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "a.db")
    await store.open()
    at: list[tuple[str, str]] = []
    agent: Agent

    async def stored() -> str:
        async with asyncio.timeout(60):
            events = await store.events(agent.id, limit=1000)
        return str(of(events, "breakpoint_change")[-1]["to"])

    @tool(effect="unsafe")
    async def send(what: str) -> str:
        """Send."""
        at.append(("tool", await stored()))
        return what

    class Asked(Provider):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            at.append(("model", await stored()))
            async for event in super().stream(request):
                yield event

    model = Asked([[calls("send", {"what": "x"})], [says("Sent.")]])
    async with told_by(store, model, [send], permissions=Permissions(mode="ask")) as agent:
        waits = await agent.run("Send x.")
        assert await stored() == "AWAITING_APPROVAL"
        await agent.approve(waits.suspended_call_id or "")
        assert at == [("model", "STREAMING_MODEL"), ("tool", "TOOL_EXECUTING"), ("model", "STREAMING_MODEL")]
        way = [(each["from"], each["to"]) for each in of(await heard(agent, "monitor"), "breakpoint_change")]
        assert [to for _, to in way] == [
            "PRE_MODEL", "STREAMING_MODEL", "TOOL_PENDING", "AWAITING_APPROVAL",
            "TOOL_PENDING", "PRE_TOOL", "TOOL_EXECUTING", "POST_TOOL", "PRE_MODEL", "STREAMING_MODEL", "READY",
        ]  # fmt: skip
        assert [at for at, _ in way] == [None, *[to for _, to in way[:-1]]], "each goes on where the last was"
    await store.close()


async def test_that_old_turns_are_summed_up_is_stored_before_the_model_is_asked(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "a.db")
    await store.open()
    at: list[tuple[str, str]] = []
    agent: Agent

    class Asked(Provider):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            events = of(await store.events(agent.id, limit=1000), "breakpoint_change")
            at.append((request.agent, str(events[-1]["to"])))
            used = Usage(input_tokens=len(str(request.messages)) // 4, output_tokens=100)
            async for event in super().stream(request):
                yield replace(event, usage=used) if isinstance(event, Completed) else event

    model = Asked([[says("word " * 100)] for _ in range(60)])
    for budget in (None, Budget(tokens=10_000_000)):  # also where something is reserved for it
        at.clear()
        name = f"a{budget is not None}"
        runtime = Runtime(provider=model, store=store, budget=budget)
        policy = Policy(limits=Limits(context_tokens=1_000))
        async with Agent(name, system="Talk.", runtime=runtime, policy=policy) as agent:
            while not any(who != name for who, _ in at):
                await agent.run("Go on. " * 20)
            assert {where for _, where in at} == {"STREAMING_MODEL"} and len({who for who, _ in at}) == 2
            way = [(each["from"], each["to"]) for each in of(await heard(agent, "monitor"), "breakpoint_change")]
            assert [to for _, to in way][-4:] == ["STREAMING_MODEL", "PRE_MODEL", "STREAMING_MODEL", "READY"]
            assert [at for at, _ in way] == [None, *[to for _, to in way[:-1]]]
    await store.close()


class Slow:
    """A model that says words one by one, and may begin anew as another model."""

    name = "slow"

    def __init__(self, words: Sequence[str | None], pause_s: float) -> None:
        self._words = words
        self._pause_s = pause_s
        self.took_s = 0.0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        begun, said = asyncio.get_running_loop().time(), ""
        for word in self._words:
            if word is None:
                said = ""
                yield ModelSwitched(failed="slow", model="another", code="OVERLOADED")
                continue
            said += word
            yield TextDelta(text=word)
            await asyncio.sleep(self._pause_s)
        self.took_s = asyncio.get_running_loop().time() - begun
        yield Completed(message=Message(role="assistant", content=(says(said),)), stop_reason="end_turn")

    async def close(self) -> None:
        pass


def put_together(chunks: Sequence[dict[str, Any]]) -> str:
    text = ""
    for each in chunks:
        text = text[: each["offset"]] + each["delta"]
    return text


async def test_pieces_come_ten_times_a_second_at_most_and_are_the_whole_text(tmp_path: Path) -> None:
    model = Slow([f"w{n} " for n in range(120)], 0.005)
    async with told_by(tmp_path / "a.db", model) as agent:
        outcome = await agent.run("Talk.")
        events = await heard(agent, "progress")
        chunks = of(events, "text_chunk")
        assert put_together(chunks) == outcome.text
        assert "".join(each["delta"] for each in chunks) == outcome.text
        assert 3 <= len(chunks) <= model.took_s / PIECE_S + 2
        assert {each["messageId"] for each in chunks} == {(await agent.messages())[-1].id}
        assert [each["delta"] for each in chunks if each["offset"] == 0] == ["w0 "], "the first comes at once"


async def test_what_another_model_says_begins_anew(tmp_path: Path) -> None:
    async with told_by(tmp_path / "a.db", Slow(["Half an ans", None, "A whole one."], 0)) as agent:
        outcome = await agent.run("Talk.")
        chunks = of(await heard(agent, "progress"), "text_chunk")
        assert [each["offset"] for each in chunks] == [0, 0]
        assert put_together(chunks) == outcome.text == "A whole one."


async def test_an_answer_that_broke_off_is_no_message(tmp_path: Path) -> None:
    model = [Break(ModelStreamBroken("gone"), says("Half")), [says("Whole.")]]
    async with told_by(tmp_path / "a.db", model, limits=Limits(first_wait_s=0.001)) as agent:
        await agent.run("Talk.")
        events = await heard(agent)
        half, whole = of(events, "text_chunk")
        assert half["messageId"] != whole["messageId"]
        assert [each["content"] for each in of(events, "message")] == ["Whole."]
        assert len(of(events, "done")) == 1


async def test_the_last_word_is_no_end_while_somebody_waits_for_another(tmp_path: Path) -> None:
    agent: Agent

    class Interrupted(Provider):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            if len(self.requests) == 0:
                await agent.say("And three?")
            async for event in super().stream(request):
                yield event

    async with told_by(tmp_path / "a.db", Interrupted([[says("Two.")], [says("Three.")]])) as agent:
        await agent.run("Two?")
        assert [event.type for event in await heard(agent, "progress") if event.type != "text_chunk"] == [
            "message", "message", "done"
        ]  # fmt: skip


async def test_each_way_in_which_a_run_ends_is_told_once(tmp_path: Path) -> None:
    async def nothing(_: Any) -> Stop:
        return Stop("not today")

    async def ends(agent: Agent) -> list[str]:
        return [str(each["outcome"]) for each in of(await heard(agent, "progress"), "done")]

    add_again = [calls("add", {"a": 1})]
    async with told_by(tmp_path / "limit.db", [add_again], limits=Limits(turns=1)) as agent:
        assert (await agent.run("Go.")).kind == "limit"
        assert await ends(agent) == ["limit"]
    async with told_by(tmp_path / "stop.db", [], hooks=[Hook(name="no", before_model=nothing)]) as agent:
        assert (await agent.run("Go.")).kind == "stopped"
        assert await ends(agent) == ["stopped"]
    for name, words in (("said", [says("Two.")]), ("called", add_again)):  # with what was said, in one commit

        async def enough(*_: Any) -> Stop:
            return Stop("that will do")

        async with told_by(tmp_path / f"{name}.db", [words], hooks=[Hook(name="no", after_model=enough)]) as agent:
            assert (await agent.run("Go.")).kind == "stopped"
            assert await ends(agent) == ["stopped"]
            said, done = (event for event in await heard(agent) if event.type in ("message", "done"))
            assert said.at == done.at
    async with told_by(tmp_path / "stuck.db", lambda _: []) as agent:
        assert (await agent.run("Go.")).kind == "stuck"
        assert (await agent.run()).kind == "stuck"
        assert await ends(agent) == ["stuck"]
    async with told_by(tmp_path / "paused.db", [], budget=Budget(tokens=5)) as agent:
        assert (await agent.run("Go.")).kind == "paused"
        assert (await agent.run()).kind == "paused"
        assert await ends(agent) == ["paused"]
    asking = Permissions(mode="ask")
    async with told_by(tmp_path / "ask.db", [add_again, [says("Two.")]], permissions=asking) as agent:
        waits = await agent.run("Go.")
        assert (await agent.run()).kind == "suspended"
        assert of(await heard(agent), "done") == [
            {"agent": "ann", "outcome": "suspended", "text": "", "callId": waits.suspended_call_id}
        ]
        await agent.approve(waits.suspended_call_id or "")
        await agent.run()  # there is nothing left to do, and nothing to tell
        assert await ends(agent) == ["suspended", "end_turn"]


async def test_a_run_that_is_cancelled_is_over_too(tmp_path: Path) -> None:
    begun = asyncio.Event()

    @tool(effect="idempotent")
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    async with told_by(tmp_path / "a.db", [[calls("wait")]], [wait]) as agent:
        running = asyncio.create_task(agent.run("Go."))
        await begun.wait()
        await agent.cancel("Enough.")
        with pytest.raises(Cancelled):
            await running
        assert of(await heard(agent), "done") == [{"agent": "ann", "outcome": "cancelled", "text": "Enough."}]


async def test_subagents_are_heard_by_their_ids_and_their_parent_is_done_after_them(store: Store) -> None:
    def model(request: dict[str, Any]) -> Sequence[Any]:
        if "Count to three" in str(request["messages"][0]):
            return [says("One, two, three.")]
        said = str(request["messages"])
        if "subagent_spawn" not in said:
            return [calls("subagent_spawn", {"name": "counter", "task": "Count to three.", "tools": []})]
        return [says("It counted." if "One, two, three." in said else "It counts.")]

    async with told_by(store, model, subagents=Delegation()) as agent:
        assert (await agent.run("Have somebody count.")).text == "It counted."
        (worker,) = await agent.subagents()
        progress = [event for event in await heard(agent, "progress") if event.type in ("message", "done")]
        of_worker = [event.type for event in progress if event.data["agent"] == worker.id]
        assert of_worker == ["message", "done"]
        own = [event for event in progress if event.data["agent"] == "ann"]
        assert [event.type for event in own].count("done") == 1
        assert own[-1].type == "done" and own[-1].data["text"] == "It counted."


async def test_members_of_a_room_are_heard_too(store: Store) -> None:
    async with Room(
        "desk", [Member(name="ann")], runtime=Runtime(provider=Provider([[says("Hello.")]]), store=store)
    ) as room:
        await room.run("Hello?")
        events = await heard(room, "progress")
        assert [event.type for event in events] == ["room_message", "text_chunk", "message", "done", "room_message"]
        assert {event.data["agent"] for event in events if event.type != "room_message"} == {"ann"}


async def test_a_fork_is_told_what_was_said_by_its_own_name(store: Store) -> None:
    async with told_by(store, [[says("Hello.")]]) as agent:
        await agent.run("Hello?")
        async with await agent.fork("bob") as other:
            (said,) = [event for event in await heard(other) if event.type == "message"]
            assert (said.data["agent"], said.data["content"]) == ("bob", "Hello.")
