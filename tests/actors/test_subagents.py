"""The orchestrator delegates: subagents read beside it, speak to it alone, and end with what a person cancels."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from koda_ray.actors.session import Session
from koda_ray.agent.delegation import Subagent, subagents_among
from tests.actors.conftest import SessionWorld
from tests.actors.script import scripted_model
from tests.agent.crew import is_subagent, spawn
from tests.llm.server import Answer, Call, reply, results

Json = dict[str, Any]

pytestmark = [pytest.mark.sandbox]


def reviewing(reviewer: Callable[[Json], Answer], *, waits: bool = True) -> Callable[[Json], Answer]:
    """Have the scripted orchestrator ask a subagent before it makes its list, and then go on as usual."""
    usual = scripted_model()

    def respond(request: Json) -> Answer:
        if is_subagent(request):
            return reviewer(request)
        spawned = results(request, "subagent_spawn")
        if not request.get("tools") or '"planAccepted": true' not in request["messages"][-1]["content"][-1]["text"]:
            return usual(request)
        if not spawned:
            return spawn("reviewer", "Which files are there?", ["sandbox_list_files"])
        if waits and not results(request, "subagent_result"):
            return Call("subagent_result", {"subagent_id": json.loads(spawned[0]["content"])["subagent_id"]})
        return usual(request)

    return respond


def lists(request: Json) -> Answer:
    return reply("There is src/App.tsx.") if results(request) else Call("sandbox_list_files")


async def subagents(world: SessionWorld, session: Session) -> list[Subagent]:
    return list(subagents_among(await world.store.beads(session.session_id)).values())


async def executing(world: SessionWorld, session: Session) -> None:
    await world.until(session, "plan")
    await world.say(session, "accept")


async def test_a_subagent_looks_at_the_project_for_the_orchestrator(world: SessionWorld) -> None:
    asked: list[Json] = []
    models: dict[str, set[str]] = {"subagent": set(), "orchestrator": set(), "code": set()}
    respond = reviewing(lists)

    def look(request: Json) -> Answer:
        if is_subagent(request):
            asked.append(request)
        who = "subagent" if is_subagent(request) else "orchestrator" if request.get("tools") else "code"
        models[who].add(request["model"])
        return respond(request)

    row = await world.row()
    session = await world.activate(row, world.model(look), subagent_model="claude-small", codegen_model="claude-code")
    await executing(world, session)
    await world.event(session, "subagent_end")
    (reviewer_,) = await subagents(world, session)
    assert (reviewer_.status, reviewer_.result, reviewer_.model) == ("done", "There is src/App.tsx.", "claude-small")
    assert models["subagent"] == {"claude-small"}
    assert [[tool["name"] for tool in request["tools"]] for request in asked] == [["sandbox_list_files"]] * 2
    assert "src/App.tsx" in results(asked[-1])[0]["content"]
    await world.event(session, "todo_update")
    (read,) = [call for call in await world.store.tool_calls(row) if call.name == "subagent_result"]
    assert isinstance(read.result, dict) and "There is src/App.tsx." in str(read.result["content"])
    said = [str(event["content"]) for event in await world.events(session, "message")]
    assert not any("There is src/App.tsx." in words for words in said), "what it said to the orchestrator was shown"
    await world.event(session, "file_written")
    assert models["code"] == {"claude-code"}
    assert len(models["orchestrator"]) == 1 and models["orchestrator"].isdisjoint({"claude-small", "claude-code"})
    await world.say(session, "cancel")


async def test_what_a_person_cancels_ends_its_subagents_too(world: SessionWorld) -> None:
    session = await world.open("a dot", reviewing(lambda request: reply("...", hang=True)))
    await executing(world, session)
    await world.event(session, "subagent_start")
    await world.say(session, "cancel")
    (ended,) = await subagents(world, session)
    assert (ended.status, ended.result) == ("cancelled", "The person cancelled.")
    assert (session.state.phase, session.state.owes) == ("plan", None)
    assert [event["status"] for event in await world.events(session, "subagent_end")] == ["cancelled"]


async def test_what_is_said_reaches_agents_that_only_wait_for_a_subagent(world: SessionWorld) -> None:
    asked: list[Json] = []

    def respond(request: Json) -> Answer:
        if is_subagent(request):
            return reply("...", hang=True)
        if '"planAccepted": true' not in request["messages"][-1]["content"][-1]["text"]:
            return scripted_model()(request)
        asked.append(request)
        return reply("I wait for it.") if results(request, "subagent_spawn") else spawn("reviewer", "Look", [])

    session = await world.open("a dot", respond)
    await executing(world, session)
    await world.event(session, "message")
    assert len(asked) == 2
    await world.say(session, "message", text="make it red")
    async with asyncio.timeout(60):
        while not any("make it red" in json.dumps(each) for each in asked):
            await asyncio.sleep(0.02)
    assert (session.state.feedback, session.state.unread) == (("make it red",), ())
    await world.say(session, "cancel")


async def test_a_session_that_comes_back_goes_on_with_the_subagent_that_it_had(world: SessionWorld) -> None:
    asked: list[Json] = []

    def reviewer(request: Json) -> Answer:
        asked.append(request)
        return reply("...", hang=True) if len(asked) == 1 else lists(request)

    row = await world.row()
    model = world.model(reviewing(reviewer))
    session = await world.activate(row, model)
    await executing(world, session)
    async with asyncio.timeout(60):
        while not asked:
            await asyncio.sleep(0.02)
    await session.close()
    (open_,) = await subagents(world, session)
    assert open_.status == "running"
    session = await world.activate(row, model)
    await world.event(session, "subagent_end")
    (done,) = await subagents(world, session)
    assert (done.id, done.status, done.result) == (open_.id, "done", "There is src/App.tsx.")
    assert len(await world.events(session, "subagent_start")) == 1
    await world.event(session, "todo_update")
    await world.say(session, "cancel")


async def test_a_subagent_that_may_not_ask_now_asks_once_its_parent_goes_on(world: SessionWorld) -> None:
    gate = threading.Event()
    usual = scripted_model()

    def respond(request: Json) -> Answer:
        if is_subagent(request):
            gate.wait()  # for as long as the plan takes: one that went on by itself would ask before it
            return lists(request)
        planned = '"planAccepted": true' in request["messages"][-1]["content"][-1]["text"]
        if request.get("tools") and not planned and not results(request, "subagent_spawn"):
            return spawn("reviewer", "Which files are there?", ["sandbox_list_files"])
        return usual(request)

    asks = {"rules": [{"decision": "ask", "tool": "sandbox_list_files"}]}
    session = await world.activate(await world.row(permissions=asks), world.model(respond))
    await world.until(session, "plan")
    assert session.agents.busy
    gate.set()  # it wants something while the person looks at the plan
    (reviewer,) = await subagents(world, session)
    async with asyncio.timeout(60):
        while session.agents.busy:
            await asyncio.sleep(0.02)
    assert await world.events(session, "subagent_end") == []
    await world.say(session, "accept")
    async with asyncio.timeout(60):
        while session.state.approval is None:
            await asyncio.sleep(0.02)
    (asked,) = [each for each in await world.store.approvals(session.session_id) if each.kind == "tool_call"]
    assert (asked.payload["agent"], asked.status) == (reviewer.id, "pending")
    await world.say(session, "approve", approvalId=asked.id)
    await world.event(session, "subagent_end")
    (done,) = await subagents(world, session)
    assert (done.status, done.result) == ("done", "There is src/App.tsx.")
    await world.say(session, "cancel")
