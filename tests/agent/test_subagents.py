"""Subagents: spawned once, bounded, heard of by their parent, answered by a person; looking at them is no progress."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from koda_ray.agent import Agent, Delegation, Policy, Runtime, subagent_tools, tool
from koda_ray.agent.limits import Limits
from koda_ray.agent.own_words import reminder
from koda_ray.agent.permissions import Permissions
from koda_ray.budgets import with_limit
from koda_ray.errors import BudgetExceeded, InvalidInput
from koda_ray.llm.base import Block
from koda_ray.state.charges import Reserve
from koda_ray.state.records import Batch
from koda_ray.state.store import Store
from koda_ray.types import Budget, now
from tests.agent.crew import crew_model, is_subagent, spawn, world_tools
from tests.agent.everywhere import everywhere
from tests.agent.leading import Json, lead
from tests.agent.scripted import Provider, calls, says
from tests.agent.world import MemoryWorld
from tests.llm.server import Answer, ApiError, Call, ModelServer, reply, results, texts


def of_subagents(server: ModelServer) -> list[Json]:
    return [each.asked for each in server.requests if is_subagent(each.asked)]


@everywhere
async def test_two_work_beside_each_other_and_their_parent_hears_of_both(store: Store) -> None:
    world = MemoryWorld()
    tools = world_tools(world)
    async with lead(store, crew_model, tools, subagents=Delegation(models=("small", "big"))) as (agent, server):
        done = await agent.run("Charge a and b.")
        assert (done.kind, done.text) == ("end_turn", "a is charged; b is charged too.")
        assert sorted(world.charges) == ["a", "b"]
        asked = of_subagents(server)
        assert {request["model"] for request in asked} == {"small"}
        assert {tool["name"] for request in asked for tool in request["tools"]} == {"charge", "charged"}
        both = await agent.subagents()
        assert [(each.name, each.status, each.result, each.told) for each in both] == [
            ("worker a", "done", "a is charged", True),
            ("worker b", "done", "b is charged", True),
        ]
        events = await store.events(agent.id)
        types = [event.type for event in events]
        assert (types.count("subagent_start"), types.count("subagent_end")) == (2, 2)
        assert {event.channel for event in events if event.type.startswith("subagent")} == {"progress"}
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert {message.agent for message in await agent.messages()} == {"lead"}


async def test_what_may_be_handed_on_stands_in_the_schema_and_nothing_else_is_taken(store: Store) -> None:
    def model(request: Json) -> Answer:
        assert not is_subagent(request)
        schema = next(each for each in request["tools"] if each["name"] == "subagent_spawn")["input_schema"]
        assert schema["properties"]["tools"]["items"] == {"const": "charged", "type": "string"}
        done = results(request)
        if not done:
            wrong: list[Json] = [{"tools": ["charge"]}, {"model": "huge"}, {"may_delegate": True}]
            return [spawn("x", "Do.", **{"tools": [], **each}) for each in wrong]
        for each, path in zip(done, ("tools.0", "model", "may_delegate"), strict=True):
            assert each["is_error"] and json.loads(each["content"])["error"]["issues"][0]["path"] == path
        return reply("No.")

    options = Delegation(tools=("charged",), models=("small",))
    async with lead(store, model, world_tools(MemoryWorld()), subagents=options) as (agent, _):
        assert (await agent.run("Go.")).text == "No."
        assert await agent.subagents() == []
    with pytest.raises(InvalidInput, match="pay cannot be handed on"):
        async with lead(store, model, subagents=Delegation(tools=("pay",))):
            pass
    with pytest.raises(InvalidInput, match="depth=0"):
        Delegation(depth=0)


async def test_how_many_there_are_is_bounded_until_a_person_speaks_again(store: Store) -> None:
    refused: list[str] = []

    def model(request: Json) -> Answer:
        if is_subagent(request):
            return reply("Done.")
        done, asked = results(request), sum(not words.startswith("(Reports") for words in texts(request))
        here = done[-3:] if len(done) > 3 * (asked - 1) else []
        if not here:
            return [spawn(str(n), "Do.", []) for n in range(3)]
        refused.extend(json.loads(each["content"])["error"]["message"] for each in here if each["is_error"])
        return reply("Well.")

    async with lead(store, model, subagents=Delegation(total=2)) as (agent, _):
        await agent.run("Go.")
        assert len(refused) >= 1 and "2 subagents were spawned" in refused[0]
        await agent.run("Again.")
        assert [each.status for each in await agent.subagents()] == ["done"] * 4


async def test_how_many_are_unfinished_is_bounded(store: Store) -> None:
    gate = asyncio.Event()

    @tool(effect="pure")
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    def model(request: Json) -> Answer:
        done = results(request)
        if is_subagent(request):
            return reply("Waited.") if done else Call("wait")
        if not done:
            return [spawn(str(n), "Wait.", ["wait"]) for n in range(3)]
        assert [each["is_error"] for each in done] == [False, False, True]
        assert "LIMIT" in done[2]["content"] and "subagent_result" in done[2]["content"]
        return reply("Two it is.")

    async with lead(store, model, [wait], subagents=Delegation(unfinished=2, at_once=1)) as (agent, server):
        running = asyncio.create_task(agent.run("Go."))
        await asyncio.to_thread(server.wait_for, lambda: len(server.requests) >= 3)
        assert len(of_subagents(server)) == 1 and agent.busy  # one at a time; the other waits its turn
        gate.set()
        assert (await running).text == "Two it is."
        assert [each.status for each in await agent.subagents()] == ["done", "done"] and not agent.busy


async def test_subagents_have_subagents_as_deep_as_was_said(store: Store) -> None:
    def model(request: Json) -> Answer:
        names = {each["name"] for each in request.get("tools", [])}
        task = texts(request)[0]
        if "subagent_spawn" not in names:
            assert task == "Level 3."
            return reply("Deep down.")
        level = int(task.removeprefix("Level ").removesuffix("."))
        done = results(request)
        if not done:
            return spawn("next", f"Level {level + 1}.", [], **({"may_delegate": True} if level == 1 else {}))
        if done[-1]["name"] == "subagent_spawn":
            return Call("subagent_result", {"subagent_id": json.loads(done[-1]["content"])["subagent_id"]})
        return reply(f"{level}: {json.loads(done[-1]['content'])['result']}")

    async with lead(store, model, subagents=Delegation(depth=2, at_once=1)) as (agent, _):
        assert (await agent.run("Level 1.")).text == "1: 2: Deep down."
        assert [(each.depth, each.parent == "lead") for each in await agent.subagents()] == [(1, True), (2, False)]


async def test_one_that_fails_or_runs_out_is_told_as_such(store: Store) -> None:
    def model(request: Json) -> Answer:
        if is_subagent(request):
            fails = texts(request) == ["Fail."]
            return ApiError(400, "invalid_request_error", "no such thing") if fails else Call("touch")
        if not results(request):
            return [spawn("f", "Fail.", []), spawn("r", "Run.", ["touch"])]
        if (reports := [words for words in texts(request) if words.startswith("(Reports")]) == []:
            return reply("I wait.")
        said = "".join(reports)
        assert 'status="failed"' in said and "no such thing" in said
        assert 'status="stopped"' in said and "3 answers of the model" in said
        return reply("One failed, one ran out.")

    @tool(effect="idempotent")
    def touch() -> str:
        """Touch."""
        return "touched"

    async with lead(store, model, [touch], subagents=Delegation(limits=Limits(turns=3))) as (agent, _):
        assert (await agent.run("Go.")).text == "One failed, one ran out."
        codes = {each.name: (each.status, each.code) for each in await agent.subagents()}
        assert codes == {"f": ("failed", "MODEL_ERROR"), "r": ("stopped", "LIMIT")}


@everywhere
async def test_what_a_subagent_asks_a_person_is_asked_and_answered_through_its_parent(store: Store) -> None:
    world, asked = MemoryWorld(), list[Any]()
    permissions = Permissions(mode="ask")

    def model(request: Json) -> Answer:
        done = results(request)
        if is_subagent(request):
            return reply("a is charged") if done else Call("charge", {"item": "a"})
        if not done:
            return spawn("w", "Charge a.", ["charge"])
        return reply("It said: " + texts(request)[-1]) if len(texts(request)) > 1 else reply("I wait.")

    async with lead(store, model, world_tools(world), permissions=permissions) as (agent, _):
        outcome = await agent.run("Go.")
        while outcome.kind == "suspended":
            (approval,) = await agent.approvals()
            asked.append(approval.payload["name"])
            assert approval.call_id == outcome.suspended_call_id and not agent.busy and world.charges == []
            outcome = await agent.approve(approval.call_id or "")
        assert asked == ["charge"]  # to delegate changes nothing
        assert "a is charged" in outcome.text and world.charges == ["a"]


@everywhere
async def test_what_subagents_use_is_their_parents_and_one_that_was_paused_goes_on(store: Store) -> None:
    def model(request: Json) -> list[Block]:
        done = results(request)
        if is_subagent(request):
            return [calls("look")] if len(done) < 3 else [says("I looked.")]
        if not done:
            return [calls("subagent_spawn", {"name": "w", "task": "Look. " * 2000, "tools": ["look"]})]
        return [says("It looked." if "I looked." in texts(request)[-1] else "I wait.")]

    @tool(effect="pure")
    def look() -> str:
        """Look."""
        return "seen"

    provider, budget = Provider(model), Budget(tokens=3000)
    paused: list[str] = []
    async with Agent(
        "lead", [look], runtime=Runtime(provider=provider, store=store, budget=budget), subagents=Delegation()
    ) as agent:
        outcome = await agent.run("Go.")
        while outcome.kind == "paused" and outcome.exceeded is not None:
            paused.extend(each.status for each in await agent.subagents())
            budget = with_limit(Budget(), outcome.exceeded.resource, outcome.exceeded.limit + outcome.exceeded.wanted)
            outcome = await agent.extend(budget)
        assert (outcome.kind, outcome.text) == ("end_turn", "It looked.")
        assert "running" in paused, "it was never paused in the middle of it"
        assert [each.status for each in await agent.subagents()] == ["done"]
        charged = [each for each in await agent.charges() if each.status == "settled"]
        assert len(charged) == len(provider.requests) == 7


async def test_a_pause_that_is_found_while_the_person_gives_more_is_none(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model(request: Json) -> list[Block]:
        done = results(request)
        if is_subagent(request):
            return [says("I looked.")]
        if not done:
            return [calls("subagent_spawn", {"name": "w", "task": "Look. " * 2000, "tools": []})]
        return [says("It looked." if "I looked." in texts(request)[-1] else "I wait.")]

    commit, refused, goes_on = store.commit, asyncio.Event(), asyncio.Event()

    async def slowly(session_id: str, epoch: int, batch: Batch) -> Any:
        mine = [each.agent == "lead" for each in batch.charges if isinstance(each, Reserve)]
        try:
            done = await commit(session_id, epoch, batch)
        except BudgetExceeded:
            if not all(mine):
                refused.set()
                await goes_on.wait()
            raise
        if refused.is_set() and any(mine):
            goes_on.set()  # by what the person gave meanwhile
        return done

    monkeypatch.setattr(store, "commit", slowly)
    limits, provider = Limits(max_tokens=4000), Provider(model)
    runtime = Runtime(provider=provider, store=store, budget=Budget(tokens=7_000))
    async with Agent(
        "lead", runtime=runtime, policy=Policy(limits=limits), subagents=Delegation(limits=limits)
    ) as agent:
        outcome = await agent.run("Go.")
        assert outcome.kind == "paused"
        await asyncio.wait_for(refused.wait(), 60)
        outcome = await asyncio.wait_for(agent.extend(Budget(tokens=1_000_000)), 60)
        assert (outcome.kind, outcome.text) == ("end_turn", "It looked."), provider.requests
        asked = await agent.approvals(pending=False)
        assert [(each.kind, each.status) for each in asked] == [("budget", "approved")]


async def test_subagents_that_only_look_are_no_way_out_of_a_circle_and_those_that_change_things_are(
    store: Store,
) -> None:
    @tool(effect="idempotent")
    async def build() -> str:
        """Build."""
        raise InvalidInput("it does not fit")

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "as before"

    def model(name: str) -> Callable[[Json], Answer]:
        helpers = itertools.count(1)

        def respond(request: Json) -> Answer:
            if is_subagent(request):
                return reply("I see.")
            last = request["messages"][-1]["content"][-1]
            if last["type"] != "tool_result":  # somebody said something: a person, or its subagent's report
                return Call("build")
            if results(request)[-1]["name"] == "subagent_spawn":
                return reply("I wait for it.")
            number = next(helpers)
            return spawn(f"helper {number}", "Look.", [name]) if number < 6 else reply("That is enough.")

        return respond

    async with lead(store, model("look"), [build, look]) as (agent, _):
        stuck = await agent.run("Go.")
        assert stuck.kind == "stuck" and "build failed 3 times" in stuck.text
        assert len(await agent.subagents()) == 2

    async with lead(store, model("build"), [build, look], user="other") as (agent, _):
        assert (await agent.run("Go.")).text == "That is enough."


async def test_what_the_program_says_lets_nobody_spawn_more(store: Store) -> None:
    def model(request: Json) -> Answer:
        if is_subagent(request) or request["messages"][-1]["content"][-1]["type"] == "tool_result":
            return reply("Done.")
        here = [block for block in request["messages"][-1]["content"] if block["type"] == "text"]
        return reply("Heard.") if here[-1]["text"].startswith("(Reports") else spawn("one", "Do.", [])

    async with lead(store, model, subagents=Delegation(total=1)) as (agent, _):
        for words, spawned in (("Go.", 1), (reminder("The preview is still missing."), 1), ("Again.", 2)):
            await agent.run(words)
            assert len(await agent.subagents()) == spawned


@pytest.mark.parametrize("ask", ["subagent_status", "subagent_result"])
async def test_looking_how_a_subagent_does_again_and_again_is_a_circle(
    store: Store, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    clock = itertools.count()
    monkeypatch.setattr(subagent_tools, "now", lambda: now() + timedelta(minutes=next(clock)))

    @tool(effect="pure")
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    def model(request: Json) -> Answer:
        done = results(request)
        if is_subagent(request):
            return reply("Waited.") if done else Call("wait")
        if not done:
            return spawn("slow", "Wait.", ["wait"])
        given = {"subagent_id": json.loads(done[0]["content"])["subagent_id"]}
        if "Leave it." in texts(request):
            return reply("I leave it.")
        return Call(ask, given if ask == "subagent_status" else {**given, "wait_s": 0})

    async with lead(store, model, [wait], limits=Limits(turns=60)) as (agent, _):
        stuck = await agent.run("Go.")
        assert stuck.kind == "stuck" and f"{ask} was called 8 times" in stuck.text
        gate.set()
        assert (await agent.run("Leave it.")).text == "I leave it."
