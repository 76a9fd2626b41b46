"""Commands that are recorded first and taken by the session: in order, once, whoever is there to hear it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from koda_ray.actors.intake import new_command, record_command
from koda_ray.actors.session import HELD_S, Session
from koda_ray.errors import Conflict, InvalidInput, InvalidTransition, LimitReached, NotFound, StorageError
from koda_ray.events import Envelope
from koda_ray.state.charges import Amounts, Reserve
from koda_ray.state.records import Batch, CommandRecord
from koda_ray.types import Execution, Preview, new_id, now
from tests.actors.conftest import SessionWorld
from tests.actors.script import scripted_model
from tests.state import records
from tests.state.records import SOON, say

RESTS: dict[str, Any] = {"phase": "executing", "owes": None, "execution": {}, "plan_accepted": True}


async def said(world: SessionWorld, session_id: str, name: str, key: str = "", **body: Any) -> CommandRecord:
    """Ask something of a session that may sleep."""
    key = key or new_id("cmd")
    asked, _ = await record_command(
        world.store, new_command(session_id=session_id, user_id="local", name=name, body=body, key=key)
    )
    return asked


async def awake(world: SessionWorld, session_id: str, **settings: object) -> Session:
    return await world.activate(session_id, world.model(scripted_model()), **settings)


async def test_what_was_said_to_a_sleeping_session_is_taken_in_order_before_it_works(world: SessionWorld) -> None:
    row = await world.row(**RESTS)
    asked = [await said(world, row, "permissions", mode=mode) for mode in ("ask", "auto", "plan")]
    assert [each.key for each in await world.store.inbox(row)] == [each.key for each in asked]
    assert [work.id for work in await world.store.owed(now())] == [row]
    session = await awake(world, row)
    assert session.state.permissions.mode == "plan"
    assert await world.store.inbox(row) == []
    for each in asked:
        found = await world.store.find_command(row, each.key)
        assert found is not None and (found.id, found.result) == (each.id, {"phase": "executing", "owes": None})
        assert await session.intake.take(each.key) == found


async def test_a_final_video_is_refused_at_once_where_too_much_of_its_user_waits(world: SessionWorld) -> None:
    shown = Preview(video_url="v", job_id="job-p", bundle="b", duration=4.0)
    row = await world.row(phase="preview", owes=None, execution={}, plan_accepted=True, preview=shown)

    async def accept(most_s: float) -> CommandRecord:
        asked = new_command(session_id=row, user_id="local", name="accept", body={}, key="accept")
        return (await record_command(world.store, asked, most_video_s=most_s))[0]

    with pytest.raises(LimitReached, match="KODA_USER_RENDER_S"):
        await accept(3.9)
    assert await world.store.inbox(row) == []
    assert (await accept(4.0)).result == {"phase": "preview", "owes": "render_final"}


async def test_a_final_video_that_is_asked_for_behind_going_back_is_taken(world: SessionWorld) -> None:
    shown = Preview(video_url="v", job_id="job-p", bundle="b", duration=4.0)
    row = await world.row(phase="preview", owes=None, execution={}, plan_accepted=True, preview=shown)
    back, accept = (
        new_command(session_id=row, user_id="local", name=name, body=body, key=name)
        for name, body in (("rewind", {"undo": True}), ("accept", {}))
    )
    await world.store.receive(back, lambda row, waiting: {})
    assert (await record_command(world.store, accept, most_video_s=0.0))[0].result == {}


async def left_rendering(world: SessionWorld, session_id: str) -> str:
    """Leave a preview's row and its charge as a process does that is killed in the middle of it; return its id."""
    row = await world.store.activate(session_id, host="killed", lease_until=now() + SOON)
    job = replace(records.job(row.user_id, row), kind="preview", status="running")
    held = Reserve(id=job.id, kind="render", amounts=Amounts(render_ms=60_000), bounds=())
    await world.store.commit(row.id, row.epoch, Batch(jobs=[job], charges=[held]))
    return job.id


async def ended(world: SessionWorld, session_id: str, job_id: str) -> tuple[str, list[str]]:
    charges = [each.status for each in await world.store.charges(session_id) if each.id == job_id]
    return (await world.store.get_job(job_id)).status, charges


async def test_a_cancel_that_waited_ends_the_render_that_a_killed_process_left(world: SessionWorld) -> None:
    row = await world.row(**RESTS | {"owes": "execute"})
    job_id = await left_rendering(world, row)
    await said(world, row, "cancel")
    session = await awake(world, row)
    assert (session.state.owes, session.working) == (None, False)
    assert await ended(world, row, job_id) == ("cancelled", ["refunded"])


async def test_work_that_comes_to_rest_leaves_no_render_of_a_killed_process(world: SessionWorld) -> None:
    row = await world.row()
    job_id = await left_rendering(world, row)
    session = await awake(world, row)
    await world.until(session, "question", "plan")
    async with asyncio.timeout(60):
        while session.working:
            await asyncio.sleep(0.02)
    assert await ended(world, row, job_id) == ("cancelled", ["refunded"])


async def test_what_the_phase_does_not_take_is_refused_at_once_though_nobody_is_there(world: SessionWorld) -> None:
    row = await world.row(owes=None)
    with pytest.raises(InvalidTransition, match="cannot accept in phase idle"):
        await said(world, row, "accept")
    with pytest.raises(InvalidInput, match="the commands are"):
        await said(world, row, "dance")
    with pytest.raises(NotFound):
        await said(world, row, "rewind", to="msg_unknown")
    started = await said(world, row, "start", key="k")
    assert started.result["owes"] == "analyze"
    with pytest.raises(InvalidTransition):  # the state that it leads to is what the next is judged by
        await said(world, row, "start")
    assert (await said(world, row, "start", key="k")).id == started.id
    with pytest.raises(Conflict):
        await said(world, row, "cancel", key="k")
    assert (await said(world, row, "cancel")).result == {"phase": "idle", "owes": None}
    assert (await world.store.get_session(row)).epoch == 0
    session = await awake(world, row)
    assert (session.state.phase, session.state.owes, session.working) == ("idle", None, False)


async def test_what_the_phase_takes_no_more_is_refused_and_told(world: SessionWorld) -> None:
    row = await world.row(owes=None)
    asked = await said(world, row, "start", key="k")
    between = await world.store.activate(row, host="another", lease_until=now() + SOON)
    moved = between.state.model_copy(update={"phase": "executing", "execution": Execution(), "plan_accepted": True})
    await world.store.commit(row, between.epoch, Batch(state=moved))  # as agents do
    session = await awake(world, row)
    with pytest.raises(InvalidTransition, match="cannot start"):
        await session.intake.take("k")
    (told,) = [event for event in await world.store.events(row) if event.type == "command_refused"]
    assert (told.cause_id, told.channel) == (asked.id, "control")
    assert (told.data["command"], told.data["code"]) == ("start", "INVALID_TRANSITION")
    assert await world.store.inbox(row) == []
    with pytest.raises(Conflict, match="refused"):
        await session.intake.take("k")


async def test_a_key_that_was_refused_may_be_used_again_and_is_answered_by_what_came_of_it(
    world: SessionWorld,
) -> None:
    row = await world.row(owes=None)
    await said(world, row, "start", key="k")
    between = await world.store.activate(row, host="another", lease_until=now() + SOON)
    moved = between.state.model_copy(update={"phase": "executing", "execution": Execution(), "plan_accepted": True})
    await world.store.commit(row, between.epoch, Batch(state=moved))
    session = await awake(world, row)
    await session.intake.look()  # nobody waits for the answer
    again = await said(world, row, "permissions", key="k", mode="ask")
    assert (await session.intake.take("k")).id == again.id


async def test_a_session_that_nobody_could_tell_finds_out_by_itself(world: SessionWorld) -> None:
    session = await awake(world, await world.row(**RESTS), lease_s=0.3)
    asked = await said(world, session.session_id, "permissions", mode="ask")
    async with asyncio.timeout(60):
        while await world.store.inbox(session.session_id):
            await asyncio.sleep(0.02)
    assert session.state.permissions.mode == "ask"
    assert await world.store.find_command(session.session_id, asked.key) is not None


async def test_a_session_that_cannot_take_what_waits_does_not_begin_nor_hold_the_lease(world: SessionWorld) -> None:
    row = await world.row(**RESTS)
    asked = await said(world, row, "permissions", mode="ask")
    usual = world.store.inbox

    async def away(session_id: str) -> list[CommandRecord]:
        raise StorageError("the database is away")

    world.store.inbox = away  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        await awake(world, row, lease_s=0.3)
    world.store.inbox = usual  # type: ignore[method-assign]
    async with asyncio.timeout(60):
        while row not in {work.id for work in await world.store.owed(now())}:
            await asyncio.sleep(0.02)
    session = await awake(world, row)
    assert await session.intake.take(asked.key) == await world.store.find_command(row, asked.key)


async def test_a_session_holds_its_lease_while_a_write_takes_long_and_says_when_it_cannot(world: SessionWorld) -> None:
    session = await awake(world, await world.row(**RESTS), lease_s=0.3)
    usual, renew = world.store.commit, world.store.renew
    goes_on, tried = asyncio.Event(), asyncio.Event()

    async def slow(session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
        if batch.events:
            await goes_on.wait()
        return await usual(session_id, epoch, batch)

    async def away(session_id: str, epoch: int, *, lease_until: datetime) -> bool:
        tried.set()
        raise StorageError("the database is away")

    world.store.commit = slow  # type: ignore[method-assign]
    writing = asyncio.create_task(session.core.emit(say("x")))
    leases = set[datetime | None]()
    async with asyncio.timeout(60):
        while len(leases) < 4:
            leases.add((await world.store.get_session(session.session_id)).lease_until)
            await asyncio.sleep(0.02)
    assert session.is_held and not writing.done()
    goes_on.set()
    await writing

    world.store.renew = away  # type: ignore[method-assign]
    await tried.wait()  # no other renewal is on its way
    world.ahead_s = HELD_S
    assert not session.is_held
    world.store.renew = renew  # type: ignore[method-assign]
    async with asyncio.timeout(60):
        while not session.is_held:
            await asyncio.sleep(0.02)
