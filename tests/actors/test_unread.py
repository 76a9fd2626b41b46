"""What is said to agents at work can be taken back until they heed it, whoever is killed when."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import JsonValue

from koda_ray.actors import unread
from koda_ray.actors.intake import new_command
from koda_ray.actors.pointed import pictures_of
from koda_ray.actors.session import Session
from koda_ray.actors.timeline import fork_session
from koda_ray.commands import Say
from koda_ray.errors import Conflict, InvalidTransition
from koda_ray.events import Envelope
from koda_ray.roles.orchestrator import request_context, session_block, state_block
from koda_ray.state.records import Batch, CommandRecord
from koda_ray.types import Plan, Question, Scene, new_id
from tests.actors.conftest import SessionWorld
from tests.actors.script import scripted_model
from tests.actors.test_intake import said
from tests.commands import submit
from tests.llm.server import Answer, Call, Json, reply


class Held:
    """A model that thinks until it is let go, and then plans; it keeps all that it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.goes_on = threading.Event()

    def __call__(self, request: Json) -> Answer:
        self.asked.append(json.dumps(request))
        if len(self.asked) == 1:
            self.goes_on.wait(60)
            return reply(Call("set_thinking", {"message": "Looking"}))
        return scripted_model()(request)

    def heard(self, words: str) -> bool:
        return any(words in each for each in self.asked)

    async def thinks(self) -> None:
        async with asyncio.timeout(60):
            while not self.asked:
                await asyncio.sleep(0.02)


async def tell(session: Session, text: str) -> CommandRecord:
    return await submit(session, "message", {"text": text}, key=new_id("cmd"))


async def take_back(session: Session, command: CommandRecord) -> CommandRecord:
    return await submit(session, "takeback", {"id": command.id}, key=new_id("cmd"))


async def spoken(world: SessionWorld, session: Session) -> Sequence[object]:
    return [event["content"] for event in await world.events(session, "message") if event["role"] == "user"]


async def test_what_is_taken_back_nobody_was_ever_told(world: SessionWorld) -> None:
    model = Held()
    session = await world.open("a dot", model)
    await model.thinks()
    red, round_ = await tell(session, "make it red"), await tell(session, "make it round")
    state = session.state
    assert [(each.id, each.told) for each in state.unread] == [(red.id, "make it red"), (round_.id, "make it round")]
    for shown in (json.dumps(request_context(state, [])), session_block(state, []), state_block(state)):
        assert "make it" not in shown, "neither agent is told of it"
    await take_back(session, red)
    assert (await world.store.get_session(session.session_id)).state.unread == state.unread[1:]
    model.goes_on.set()
    state = await world.until(session, "plan")
    assert not model.heard("make it red") and model.heard("make it round")
    assert (state.feedback, state.unread) == (("make it round",), ())
    assert await spoken(world, session) == ["make it round"]
    for over in (red, round_):
        with pytest.raises(InvalidTransition, match=r"stop the work .cancel."):
            await take_back(session, over)


async def test_where_all_of_it_is_taken_back_the_work_rests_as_it_would_have(world: SessionWorld) -> None:
    model = Held()
    session = await world.open("a dot", model)
    await model.thinks()
    await take_back(session, await tell(session, "make it red"))
    model.goes_on.set()
    await world.until(session, "plan")
    assert len(model.asked) == 2 and session.state.feedback == () and not model.heard("make it red")


async def test_what_is_said_the_moment_agents_come_to_rest_is_a_change(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Held()
    session = await world.open("a dot", model)
    await model.thinks()
    commit, rested = session.core.commit, asyncio.Event()

    async def late(batch: Batch, **more: Any) -> None:
        if any(isinstance(each, Say) for each in batch.phase_commands) and not rested.is_set():
            rested.set()
            model.goes_on.set()
            await world.until(session, "plan")
        await commit(batch, **more)

    monkeypatch.setattr(session.core, "commit", late)
    said_ = await tell(session, "make it red")
    assert rested.is_set() and said_.result == {"phase": "plan", "owes": "plan"}
    state = await world.until(session, "plan")
    assert (state.feedback, state.unread) == (("make it red",), ()) and model.heard("make it red")
    told = [json.dumps(each.content) for each in await world.store.messages(session.session_id, agent="orchestrator")]
    assert sum("make it red" in each for each in told) == 1


@pytest.mark.parametrize(("name", "body"), [("accept", {}), ("cancel", {"owes": "render_final"})])
async def test_what_is_refused_has_nothing_heeded_and_nothing_stopped(
    world: SessionWorld, name: str, body: dict[str, JsonValue]
) -> None:
    model = Held()
    session = await world.open("a dot", model)
    await model.thinks()
    red = await tell(session, "make it red")
    asked = new_command(session_id=session.session_id, user_id="local", name=name, body=body, key="key")
    await world.store.receive(asked, lambda row, waiting: {})  # as one that was not to be refused when it came
    with pytest.raises(InvalidTransition):
        await session.intake.take("key")
    assert session.working and [each.id for each in session.state.unread] == [red.id]
    assert not await spoken(world, session)
    model.goes_on.set()
    await world.until(session, "plan")
    assert len(await world.events(session, "command_refused")) == 1 and model.heard("make it red")


async def test_a_cancel_comes_after_what_was_said_before_it(world: SessionWorld) -> None:
    model = Held()
    session = await world.open("a dot", model)
    await model.thinks()
    await tell(session, "make it red")
    await world.say(session, "cancel")
    model.goes_on.set()
    assert (session.state.phase, session.state.owes, session.state.unread) == ("idle", None, ())
    told = [json.dumps(each.content) for each in await world.store.messages(session.session_id, agent="orchestrator")]
    assert "make it red" in told[-2] and "The person cancelled" in told[-1]


async def test_what_goes_with_a_past_that_is_left_comes_back_with_it_and_into_a_fork(world: SessionWorld) -> None:
    model = Held()
    session = await world.open("a dot", model)
    await model.thinks()
    red = await tell(session, "make it red")
    (opening,) = await world.store.messages(session.session_id, agent="orchestrator")
    await world.say(session, "rewind", to=opening.id)
    model.goes_on.set()
    assert (session.state.owes, session.state.unread) == (None, ())
    await world.say(session, "rewind", undo=True)
    assert [each.id for each in session.state.unread] == [red.id] and session.state.owes is None
    fork = await fork_session(world.store, session.session_id, user_id="local", point=None, key="fork")
    await take_back(session, red)
    assert session.state.unread == ()
    copy = await world.activate(fork, world.model(model))
    assert [each.told for each in copy.state.unread] == ["make it red"]
    await tell(copy, "a cat")  # what was said before comes before what is said now
    await world.until(copy, "plan")
    assert copy.state.unread == () and await spoken(world, copy) == ["make it red", "a cat"]


async def test_going_back_to_an_answer_leaves_what_was_not_heeded_by_then(world: SessionWorld) -> None:
    model = Held()
    session = await world.open("a dot", model)
    await model.thinks()
    await tell(session, "make it red")
    model.goes_on.set()
    await world.until(session, "plan")
    _, answer, *_ = await world.store.messages(session.session_id, agent="orchestrator")
    then = await fork_session(world.store, session.session_id, user_id="local", point=answer.id, key="fork")
    assert (await world.store.get_session(then)).state.unread == ()
    await world.say(session, "rewind", to=answer.id)
    assert (session.state.owes, session.state.unread, session.state.feedback) == (None, (), ())


async def test_what_is_taken_back_the_moment_it_is_heeded_nobody_hears(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Held()
    session = await world.open("a dot", model)
    await model.thinks()
    red = await tell(session, "make it red")
    taken: list[CommandRecord] = []

    async def late(*asked: Any, **of: Any) -> Any:
        if not taken:
            taken.append(await take_back(session, red))
        return await pictures_of(*asked, **of)

    monkeypatch.setattr(unread, "pictures_of", late)
    model.goes_on.set()
    state = await world.until(session, "plan")
    assert taken and (state.feedback, state.unread) == ((), ()) and not model.heard("make it red")
    moves = await world.events(session, "breakpoint_change")
    assert [each["from"] for each in moves[1:]] == [each["to"] for each in moves[:-1]]


async def test_what_was_said_before_a_sleep_is_taken_back_after_it(world: SessionWorld) -> None:
    model = Held()
    session = await world.open("a dot", model)
    await model.thinks()
    red, round_ = await tell(session, "make it red"), await tell(session, "make it round")
    await session.close()
    row = session.session_id
    assert len((await world.store.get_session(row)).state.unread) == 2
    asked = await said(world, row, "takeback", id=red.id)
    assert asked.result == {"phase": "idle", "owes": "analyze"}
    model.goes_on.set()
    again = await world.activate(row, world.model(model))
    state = await world.until(again, "plan")
    assert not model.heard("make it red") and model.heard("make it round")
    assert state.feedback == ("make it round",)
    with pytest.raises(InvalidTransition):
        await said(world, row, "takeback", id=round_.id)


async def test_what_its_session_has_not_taken_is_left_out(world: SessionWorld) -> None:
    row = await world.row("a dot", owes=None)
    cat, mode = (
        await said(world, row, "message", "cat", text="a cat"),
        await said(world, row, "permissions", mode="ask"),
    )
    asked = await said(world, row, "takeback", id=cat.id)
    assert cat.result["owes"] == "analyze" and asked.result == {"phase": "idle", "owes": None}
    with pytest.raises(InvalidTransition):
        await said(world, row, "takeback", id=cat.id)  # nothing is left of it
    with pytest.raises(InvalidTransition):
        await said(world, row, "takeback", id=mode.id)  # says nothing
    with pytest.raises(Conflict, match="was taken back"):
        await said(world, row, "message", "cat", text="a cat")  # which is this one still
    model = Held()
    session = await world.activate(row, world.model(model))
    state = session.state
    assert (state.phase, state.owes, state.prompt, state.permissions.mode) == ("idle", None, "a dot", "ask")
    assert await world.store.inbox(row) == [] and await world.store.find_command(row, cat.key) is None
    assert (await session.intake.take(asked.key)).id == asked.id
    (told,) = [event for event in await world.store.events(row) if event.type == "command_refused"]
    assert (told.cause_id, told.data["code"]) == (cat.id, "TAKEN_BACK")
    assert await spoken(world, session) == [] and model.asked == []


async def test_what_begins_or_answers_is_not_taken_back_before_what_was_said_to_it(world: SessionWorld) -> None:
    for phase, asked_for in (("idle", None), ("question", Question(text="Which colour?"))):
        row = await world.row("a dot", owes=None, phase=phase, question=asked_for)
        first, *said_to_it = [await said(world, row, "message", text=words) for words in ("a cat", "round", "large")]
        for later in said_to_it:
            with pytest.raises(InvalidTransition, match=f"take back message {later.id} first"):
                await said(world, row, "takeback", id=first.id)
            await said(world, row, "takeback", id=later.id)
        asked = await said(world, row, "takeback", id=first.id)
        assert asked.result == {"phase": phase, "owes": None}
        session = await world.activate(row, world.model(Held()))
        assert (session.state.owes, session.state.prompt, session.state.feedback) == (None, "a dot", ())
        assert await world.store.inbox(row) == [] and await spoken(world, session) == []


async def test_a_change_is_taken_back_alone_and_so_is_what_leaves_the_rest_as_it_was(world: SessionWorld) -> None:
    scene = Scene(number=1, title="In", duration=4, description="It comes.")
    plan = Plan(scenes=(scene,), total_duration=4, style="flat")
    row = await world.row("a dot", owes=None, phase="plan", plan=plan)
    red, _ = [await said(world, row, "message", text=words) for words in ("make it red", "make it round")]
    assert (await said(world, row, "takeback", id=red.id)).result == {"phase": "plan", "owes": "plan"}
    model = Held()
    session = await world.activate(row, world.model(model))
    assert (session.state.feedback, session.state.unread) == (("make it round",), ())
    assert await spoken(world, session) == ["make it round"]
    model.goes_on.set()
    row = await world.row("a dot", owes=None)
    cat = await said(world, row, "message", text="a cat")
    await said(world, row, "cancel")
    await said(world, row, "message", text="a dog")
    await said(world, row, "takeback", id=cat.id)
    again = await world.activate(row, world.model(scripted_model()))
    assert again.state.prompt == "a dog"


async def test_what_cannot_be_read_keeps_a_session_from_nothing(world: SessionWorld) -> None:
    row = await world.row("a dot", owes=None)
    cat = await said(world, row, "message", text="a cat")
    for name, body in (("nonsense", {}), ("takeback", {"of": cat.id})):
        asked = new_command(session_id=row, user_id="local", name=name, body=body, key=name)
        await world.store.receive(asked, lambda row, waiting: {})
    assert (await said(world, row, "permissions", mode="ask")).result["owes"] == "analyze"
    model = Held()
    session = await world.activate(row, world.model(model))
    assert (session.state.prompt, session.state.permissions.mode) == ("a cat", "ask")
    refused = [event["command"] for event in await world.events(session, "command_refused")]
    assert refused == ["nonsense", "takeback"] and await world.store.inbox(row) == []
    model.goes_on.set()


@pytest.mark.parametrize("stored", [False, True])
async def test_killed_about_the_commit_with_which_words_are_heeded_they_are_heard_or_taken_back(
    world: SessionWorld, stored: bool
) -> None:
    """Dead before that commit, no request had them and none ever will; dead after it, they are not taken back."""
    model, dead, gone = Held(), asyncio.Event(), asyncio.Event()
    session = await world.open("a dot", model)
    await model.thinks()
    red = await tell(session, "make it red")
    commit, first, row = world.store.commit, session.core.epoch, session.session_id

    async def dies(session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
        if epoch == first and (dead.is_set() or (batch.messages and batch.state and batch.state.feedback)):
            if stored and not dead.is_set():
                await commit(session_id, epoch, batch)
            dead.set()
            await gone.wait()
        return await commit(session_id, epoch, batch)

    world.store.commit = dies  # type: ignore[method-assign]
    model.goes_on.set()
    await asyncio.wait_for(dead.wait(), 60)
    assert not model.heard("make it red"), "it was not asked before that commit was through"
    if stored:
        with pytest.raises(InvalidTransition):
            await said(world, row, "takeback", id=red.id)
    else:
        await said(world, row, "takeback", id=red.id)
    again = await world.activate(row, world.model(model))
    gone.set()
    state = await world.until(again, "plan")
    assert model.heard("make it red") == stored
    assert (state.feedback, state.unread) == (("make it red",) if stored else (), ())
    assert await spoken(world, again) == (["make it red"] if stored else [])
    told = [json.dumps(each.content) for each in await world.store.messages(row, agent="orchestrator")]
    assert sum("make it red" in each for each in told) == stored
