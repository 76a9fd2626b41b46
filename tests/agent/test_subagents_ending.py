"""Subagents that end before their work is done: with their parent, by its word, or with the program."""

from __future__ import annotations

import asyncio
import json

import pytest

from koda_ray.agent import Delegation, tool
from koda_ray.agent.limits import Limits
from koda_ray.agent.permissions import Permissions
from koda_ray.agent.toolkit import ToolCall
from koda_ray.errors import Cancelled, InvalidTransition
from koda_ray.state.store import Store
from tests.agent.crew import is_subagent, spawn
from tests.agent.everywhere import everywhere
from tests.agent.leading import Json, lead
from tests.agent.world import MemoryWorld
from tests.llm.server import Answer, ApiError, Call, reply, results, texts


async def test_a_parent_that_is_cancelled_takes_its_subagents_with_it(store: Store) -> None:
    begun = asyncio.Event()
    stopped: list[str] = []

    @tool
    async def hang() -> str:
        """Hang."""
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append("hang")
        return "never"

    def model(request: Json) -> Answer:
        if texts(request)[-1] == "Still there?":
            return reply("Yes.")
        if is_subagent(request):
            return Call("hang")
        if not (done := results(request)):
            return spawn("h", "Hang.", ["hang"])
        return Call("subagent_result", {"subagent_id": json.loads(done[0]["content"])["subagent_id"]})

    async with lead(store, model, [hang]) as (agent, _):
        running = asyncio.create_task(agent.run("Go."))
        await asyncio.wait_for(begun.wait(), 60)
        await agent.cancel()
        with pytest.raises(Cancelled):
            await running
        assert stopped == ["hang"] and not agent.busy
        (ended,) = await agent.subagents()
        assert (ended.status, ended.result) == ("cancelled", "The person cancelled.")
        outcome = await agent.run("Still there?")
        assert outcome.text == "Yes."


@pytest.mark.parametrize("end", ["limit", "failure"])
async def test_one_that_ends_before_its_own_subagents_takes_them_with_it(store: Store, end: str) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()
    stopped: list[str] = []
    world = MemoryWorld()

    @tool
    async def hang(call: ToolCall) -> str:
        """Hang."""
        begun.set()
        try:
            await gate.wait()
        except asyncio.CancelledError:
            stopped.append("hang")
            raise
        world.charge("a", call)
        return "charged"

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        await begun.wait()
        return "it hangs"

    def model(request: Json) -> Answer:
        done, task = results(request), texts(request)[0]
        if task == "Hang.":
            return Call("hang")
        if task == "Delegate.":
            if not done:
                return spawn("below", "Hang.", ["hang"])
            failed = end == "failure" and done[-1]["name"] == "look"
            return ApiError(400, "invalid_request_error", "no such thing") if failed else Call("look")
        if not done:
            return spawn("above", "Delegate.", ["hang", "look"], may_delegate=True)
        if not any(words.startswith("(Reports") for words in texts(request)):
            return reply("I wait.")
        return reply("It ended.")

    options = Delegation(depth=2, limits=Limits(turns=3))
    async with lead(store, model, [hang, look], subagents=options) as (agent, server):
        assert (await agent.run("Go.")).text == "It ended."
        above, below = await agent.subagents()
        assert (above.status, above.told) == ("stopped" if end == "limit" else "failed", True)
        assert (below.status, below.result) == ("cancelled", "The agent that asked for it has ended.")
        (cut_off,) = [each for each in await agent.calls() if each.name == "hang"]
        assert cut_off.status == "interrupted" and stopped == ["hang"] and not agent.busy
        ended = [event.data["name"] for event in await store.events(agent.id) if event.type == "subagent_end"]
        assert ended == ["below", "above"]
        asked = len(server.requests)
        gate.set()
        assert (await agent.run("And now?")).text == "It ended."
        assert len(server.requests) == asked + 1 and world.charges == []


async def test_what_a_subagent_asked_is_settled_when_its_parent_is_cancelled(store: Store) -> None:
    @tool
    def send() -> str:
        """Send."""
        raise AssertionError("nobody agreed to it")

    def model(request: Json) -> Answer:
        if is_subagent(request):
            return Call("send")
        if texts(request)[-1] == "Still there?":
            return reply("Yes.")
        return reply("I wait.") if results(request) else spawn("s", "Send.", ["send"])

    async with lead(store, model, [send], permissions=Permissions(mode="ask")) as (agent, _):
        outcome = await agent.run("Go.")
        assert outcome.kind == "suspended"
        (pending,) = await agent.approvals()
        await agent.cancel()
        assert await agent.approvals() == []
        (call,) = [each for each in await agent.calls() if each.id == pending.call_id]
        assert call.status not in ("waiting", "approved", "started")
        (closed,) = [each for each in await agent.approvals(pending=False) if each.id == pending.id]
        assert closed.status == "superseded"
        (ended,) = await agent.subagents()
        assert ended.status == "cancelled"
        assert (await agent.run("Still there?")).text == "Yes."


async def test_a_parent_ends_one_of_its_own_and_knows_no_others(store: Store) -> None:
    @tool(effect="pure")
    async def hang() -> str:
        """Hang."""
        await asyncio.sleep(60)
        return "never"

    def model(request: Json) -> Answer:
        if is_subagent(request):
            return Call("hang")
        done = results(request)
        if not done:
            return spawn("h", "Hang.", ["hang"])
        id = json.loads(done[0]["content"])["subagent_id"]
        if len(done) == 1:
            return [
                Call("subagent_status"),
                Call("subagent_result", {"subagent_id": id, "wait_s": 0}),
                Call("subagent_status", {"subagent_id": "sub_other"}),
                Call("subagent_cancel", {"subagent_id": id}),
            ]
        status, early, other, ended = done[1:]
        assert json.loads(status["content"])["subagents"][0]["status"] == "running"
        assert json.loads(early["content"])["status"] == "running"
        assert other["is_error"] and id in other["content"]
        assert json.loads(ended["content"])["status"] == "cancelled"
        return reply("Ended.")

    async with lead(store, model, [hang]) as (agent, _):
        assert (await agent.run("Go.")).text == "Ended."
        assert [each.status for each in await agent.subagents()] == ["cancelled"]


@everywhere
async def test_who_waits_for_subagents_goes_back_only_after_it_was_cancelled(store: Store) -> None:
    begun = asyncio.Event()

    @tool(effect="pure")
    async def hang() -> str:
        """Hang."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    def model(request: Json) -> Answer:
        if is_subagent(request):
            return Call("hang")
        return reply("I wait.") if results(request) else spawn("h", "Hang.", ["hang"])

    async with lead(store, model, [hang]) as (agent, _):
        running = asyncio.create_task(agent.run("Go."))
        await asyncio.wait_for(begun.wait(), 60)
        async with asyncio.timeout(60):
            while (said := await agent.messages())[-1].role != "assistant" or len(said) < 4:
                await asyncio.sleep(0.01)
        for back in (agent.rewind(said[0].id), agent.undo()):
            with pytest.raises(InvalidTransition, match=r"'lead' runs; await its cancel\(\)"):
                await back
        assert agent.busy and not running.done() and await agent.messages() == said
        await agent.cancel()
        with pytest.raises(Cancelled):
            await running
        await agent.rewind(said[0].id)
        assert await agent.messages() == said[:1]


async def test_closed_in_the_middle_and_opened_again_it_goes_on(store: Store) -> None:
    begun, slow = asyncio.Event(), True

    @tool(effect="idempotent")
    async def work() -> str:
        """Work."""
        begun.set()
        if slow:
            await asyncio.sleep(60)
        return "worked"

    def model(request: Json) -> Answer:
        done = results(request)
        if is_subagent(request):
            return reply("I worked.") if done else Call("work")
        if not done:
            return spawn("w", "Work.", ["work"])
        return reply(texts(request)[-1]) if len(texts(request)) > 1 else reply("I wait.")

    async with lead(store, model, [work]) as (agent, _):
        running = asyncio.create_task(agent.run("Go."))
        await asyncio.wait_for(begun.wait(), 60)
        running.cancel()
        await asyncio.wait({running})
        assert not agent.busy
    slow = False
    async with lead(store, model, [work]) as (agent, _):
        assert await agent.owes()
        assert "I worked." in (await agent.run()).text
        assert not await agent.owes() and len(await agent.subagents()) == 1
