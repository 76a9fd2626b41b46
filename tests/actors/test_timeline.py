"""Going back in a session and going another way, with the real director, sandbox, browser and encoder."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from koda_ray.actors.janitor import Chores, Janitor
from koda_ray.actors.reaper import Reaper
from koda_ray.actors.removal import Removal
from koda_ray.actors.session import Session
from koda_ray.actors.timeline import fork_session
from koda_ray.agent.messages import from_records, repair, tool_results, tool_uses
from koda_ray.errors import InvalidInput, NotFound
from koda_ray.roles.offline import OfflineDirector
from koda_ray.state import checkpoint
from koda_ray.state.past import UNDO
from koda_ray.state.records import MessageRecord, SessionRecord, ToolCallRecord
from koda_ray.types import NodeState, new_id
from tests.actors.conftest import SessionWorld
from tests.actors.script import scripted_model
from tests.commands import submit

pytestmark = [pytest.mark.full, pytest.mark.sandbox, pytest.mark.browser]

_TIMES = {"updated_at", "last_checkpoint", "sandbox_id", "sandbox_status", "closing"}


def shown(state: NodeState) -> dict[str, Any]:
    """What a person sees of a state."""
    return state.model_dump(exclude=_TIMES)


def valid(messages: Sequence[MessageRecord], calls: Sequence[ToolCallRecord]) -> None:
    """A history as it is stored, that repair has nothing to do on but for calls that wait."""
    waiting = {call.id for call in calls if call.status == "waiting"}
    for agent in {message.agent for message in messages}:
        history = from_records(sorted((m for m in messages if m.agent == agent), key=lambda m: m.position))
        made = [block["id"] for message in history for block in tool_uses(message)]
        answered = [block["tool_use_id"] for message in history for block in tool_results(message)]
        assert len(set(made)) == len(made) and len(set(answered)) == len(answered)
        assert set(made) - set(answered) <= waiting and set(answered) <= set(made)
        repaired = repair(history, {call.id: call for call in calls})
        assert [b["id"] for m in repaired for b in tool_uses(m)] == [
            b["tool_use_id"] for m in repaired for b in tool_results(m)
        ]


async def files_of(world: SessionWorld, session_id: str) -> dict[str, bytes]:
    pointer = await world.store.latest_checkpoint(session_id)
    assert pointer is not None
    manifest = await checkpoint.load(world.storage, pointer.manifest_key)
    return await checkpoint.read_files(world.storage, manifest)


async def as_it_is(world: SessionWorld, session: Session) -> SessionRecord:
    """What is stored of a session, apart from its saying again and again that it lives."""
    return replace(await world.store.get_session(session.session_id), lease_until=None, rev=0)


async def last_said(world: SessionWorld, session: Session) -> MessageRecord:
    """What the agents said last; the preview is there a moment before they say so."""
    async with asyncio.timeout(60):
        while (said := (await world.store.messages(session.session_id))[-1]).role != "assistant":
            await asyncio.sleep(0.02)
    return said


async def in_sandbox(session: Session) -> dict[str, bytes]:
    return await session.project.look(dict)


async def test_a_session_goes_back_forward_and_another_way(world: SessionWorld) -> None:
    store = world.store
    director = OfflineDirector()
    session = await world.activate(await world.row("a red ball bounces, 2 seconds", style="playful"), director)
    planned = await world.until(session, "plan")
    at_plan = (await store.messages(session.session_id))[-1]
    await world.say(session, "accept")
    first = await world.until(session, "preview")
    at_first = await last_said(world, session)
    beads = await store.beads(session.session_id)
    await (await session.project.sandbox()).write_files({"src/extra.ts": b"export const extra = 1;\n"})
    await session.project.save("heartbeat")
    await world.say(session, "message", text="make the ball blue")
    second = await world.until(session, "preview")
    assert first.preview is not None and second.preview is not None
    assert first.preview.bundle != second.preview.bundle
    await last_said(world, session)
    new_files = await files_of(world, session.session_id)
    messages, calls = await store.messages(session.session_id), await store.tool_calls(session.session_id)

    # back to what the agents said last about the first preview: files, todos and video are those of then
    await world.say(session, "rewind", to=at_first.id)
    assert shown(session.state) == shown(first)
    assert await store.messages(session.session_id) == messages[: messages.index(at_first) + 1]
    assert [(b.id, b.status, b.title) for b in await store.beads(session.session_id)] == [
        (b.id, b.status, b.title) for b in beads
    ]
    old_files = await in_sandbox(session)
    assert old_files["src/extra.ts"]  # it was saved before the next thing was said
    assert old_files == await files_of(world, session.session_id) != new_files
    (pending,) = await store.approvals(session.session_id, pending=True)
    assert pending.kind == "preview"
    (told,) = await world.events(session, "rewound")
    assert told["point"] == at_first.id and told["history"][0][0] == 1

    # back to the plan: it waits for the person again, and nothing of the project is there
    await world.say(session, "rewind", to=at_plan.id)
    assert shown(session.state) == shown(planned)
    valid(await store.messages(session.session_id), await store.tool_calls(session.session_id))
    (pending,) = await store.approvals(session.session_id, pending=True)
    waiting = await session.agents.waiting()
    assert pending.kind == "plan" and waiting is not None and pending.call_id == waiting.id
    assert await store.latest_checkpoint(session.session_id) is None
    assert "src/extra.ts" not in await in_sandbox(session)
    assert await store.beads(session.session_id) == []

    # both undone, the last first
    await world.say(session, "rewind", undo=True)
    assert shown(session.state) == shown(first) and await in_sandbox(session) == old_files
    await world.say(session, "rewind", undo=True)
    assert shown(session.state) == shown(second)
    assert await store.messages(session.session_id) == messages
    assert await store.tool_calls(session.session_id) == calls
    assert await in_sandbox(session) == new_files
    with pytest.raises(NotFound, match="nothing to undo"):
        await world.say(session, "rewind", undo=True)

    # another way from the first preview, in a session of its own, while this one stays as it is
    before = await as_it_is(world, session)
    key = new_id("cmd")
    fork_id = await fork_session(store, session.session_id, user_id="local", point=at_first.id, key=key)
    assert await as_it_is(world, session) == before
    fork = await world.activate(fork_id, director)
    assert fork.state.phase == "preview" and fork.state.forked_from == session.session_id
    assert fork.state.preview is not None and fork.state.preview.bundle == first.preview.bundle
    assert fork_id in fork.state.preview.video_url and session.session_id not in str(
        fork.state.model_dump(exclude={"forked_from"})
    )
    assert await in_sandbox(fork) == old_files
    valid(await store.messages(fork_id), await store.tool_calls(fork_id))
    said = [event["content"] for event in await world.events(fork, "message")]
    assert said and "make the ball blue" not in said
    blobs = {stored.key for stored in await world.storage.look_below("users/local/blobs")}
    await fork.project.save("heartbeat")
    assert {stored.key for stored in await world.storage.look_below("users/local/blobs")} == blobs
    await world.say(fork, "message", text="make the ball green")
    green = await world.until(fork, "preview")
    assert green.preview is not None and green.preview.bundle not in (first.preview.bundle, second.preview.bundle)
    assert shown(session.state) == shown(second)

    # whoever goes first leaves the other what the two share
    removal = Removal(store=store, storage=world.storage, sandboxes=world.sandboxes)
    await session.close()
    await removal.finish(await store.close_session(session.session_id, user_id="local"))
    await world.say(fork, "rewind", to=at_first.id)
    assert await in_sandbox(fork) == old_files
    assert fork.state.preview is not None
    job = await store.get_job(fork.state.preview.job_id)
    assert job.result is not None and await world.storage.exists(str(job.result["videoKey"]))
    await fork.close()
    await removal.finish(await store.close_session(fork_id, user_id="local"))
    left = [stored.key for stored in await world.storage.look_below("users/local")]
    assert left == []
    assert await world.sandboxes.list() == []


async def test_a_session_goes_to_its_versions_also_to_one_that_it_left(world: SessionWorld) -> None:
    store = world.store
    session = await world.activate(await world.row("a red ball bounces, 2 seconds", style="playful"), OfflineDirector())
    await world.until(session, "plan")
    await world.say(session, "accept")
    first = await world.until(session, "preview")
    await last_said(world, session)
    old_files = await in_sandbox(session)
    await world.say(session, "message", text="make the ball blue")
    second = await world.until(session, "preview")
    await last_said(world, session)
    new_files = await in_sandbox(session)
    assert first.preview is not None and second.preview is not None and old_files != new_files
    blue, red = await store.versions(session.session_id, limit=9)
    assert [(each.number, each.job_id, each.bundle, each.checkpoint_id) for each in (red, blue)] == [
        (1, first.preview.job_id, first.preview.bundle, first.preview.checkpoint_id),
        (2, second.preview.job_id, second.preview.bundle, second.preview.checkpoint_id),
    ]
    for version, files in ((red, old_files), (blue, new_files), (red, old_files)):
        await world.say(session, "rewind", to=version.id)
        assert session.state.preview is not None and session.state.preview.job_id == version.job_id
        assert session.state.phase == "preview" and await in_sandbox(session) == files
        assert await files_of(world, session.session_id) == files
        valid(await store.messages(session.session_id), await store.tool_calls(session.session_id))
        (pending,) = await store.approvals(session.session_id, pending=True)
        assert pending.kind == "preview"
    assert [each.live for each in await store.versions(session.session_id, limit=9)] == [False, True]

    # and what is asked for then goes on from there
    await world.say(session, "message", text="make the ball green")
    third = await world.until(session, "preview")
    assert third.preview is not None and third.preview.bundle not in (red.bundle, blue.bundle)
    valid(await store.messages(session.session_id), await store.tool_calls(session.session_id))
    newest = (await store.versions(session.session_id, limit=1))[0]
    assert newest.number == 3 and newest.job_id == third.preview.job_id
    fork_id = await fork_session(store, session.session_id, user_id="local", point=blue.id, key=new_id("cmd"))
    assert await files_of(world, fork_id) == new_files
    assert [each.number for each in await store.versions(fork_id, limit=9)] == [2, 1]


async def test_going_back_stops_what_is_under_way_and_waits_for_a_person(world: SessionWorld) -> None:
    store = world.store
    session = await world.open("a dot", scripted_model(pause_s=0.05, scenes=3))
    await world.until(session, "plan")
    at_plan = (await store.messages(session.session_id))[-1]
    await world.say(session, "accept")
    await world.event(session, "tool_start", 3)
    await world.say(session, "rewind", to=at_plan.id)
    assert (session.state.phase, session.state.owes) == ("plan", None)
    assert not session.working
    valid(await store.messages(session.session_id), await store.tool_calls(session.session_id))
    # the work that was cut off is there again, at rest: nothing of it goes on by itself
    await world.say(session, "rewind", undo=True)
    assert (session.state.phase, session.state.owes) == ("plan", None) and session.state.execution is not None
    messages, calls = await store.messages(session.session_id), await store.tool_calls(session.session_id)
    valid(messages, calls)
    assert not [call for call in calls if call.status in ("started", "waiting")]
    # and from there it goes to its end
    await world.say(session, "accept")
    await world.until(session, "preview")
    valid(await store.messages(session.session_id), await store.tool_calls(session.session_id))


async def test_what_cannot_be_gone_back_to_is_refused_and_stops_nothing(world: SessionWorld) -> None:
    session = await world.open("a dot", scripted_model(pause_s=0.05))
    await world.until(session, "plan")
    await world.say(session, "accept")
    for body, refusal in (
        ({"to": "msg_nonsense"}, NotFound),
        ({"undo": True}, NotFound),
        ({}, InvalidInput),
        ({"to": "msg_1", "undo": True}, InvalidInput),
        ({"to": 3}, InvalidInput),
    ):
        with pytest.raises(refusal):
            await world.say(session, "rewind", **body)
    assert session.state.owes == "execute"
    for point in ("msg_nonsense", UNDO):
        with pytest.raises(NotFound):
            await fork_session(world.store, session.session_id, user_id="local", point=point, key=new_id("cmd"))


async def two_steps(world: SessionWorld) -> tuple[str, str]:
    """A session at rest to which two things were said, each with files of its time; returns it and the first point."""
    session = await world.at_rest()
    points: list[str] = []
    for step in (1, 2):
        batch = await session.workbench.keep(
            {"src/App.tsx": f"// {step}", f"src/components/Only{step}.tsx": "export {};"}
        )
        points.append((await session.agents.add_user(f"step {step}", batch)).id)
    await session.close()
    return session.session_id, points[0]


async def test_going_back_and_going_another_way_keep_modes_and_empty_folders(world: SessionWorld) -> None:
    async def kinds(of: Session) -> tuple[Any, tuple[str, ...]]:
        taken = await (await of.project.sandbox()).snapshot()
        return taken.modes, taken.folders

    session = await world.at_rest()
    box = await session.project.sandbox()
    await box.write_files({"scripts/go.sh": b"#!/bin/sh\necho ran\n"})
    await box.run(("sh", "-c", "chmod 755 scripts/go.sh; mkdir -p public/frames"))
    then = ({"scripts/go.sh": 0o755}, ("public/frames",))
    point = await session.agents.add_user("a script", await session.workbench.keep({"src/App.tsx": "// 1"}))
    await box.run(("sh", "-c", "chmod 644 scripts/go.sh; rmdir -p public/frames; mkdir src/later"))
    await session.agents.add_user("none", await session.workbench.keep({"src/App.tsx": "// 2"}))
    assert await kinds(session) == ({}, ("src/later",))

    fork_id = await fork_session(world.store, session.session_id, user_id="local", point=point.id, key=new_id("cmd"))
    fork = await world.activate(fork_id, world.model(scripted_model()))
    assert await kinds(fork) == then
    await world.say(session, "rewind", to=point.id)
    assert await kinds(session) == then
    await world.say(session, "rewind", undo=True)
    assert await kinds(session) == ({}, ("src/later",))


async def test_killed_on_the_way_back_a_session_gets_there_when_it_is_woken(world: SessionWorld) -> None:
    instants = 8
    made = [await two_steps(world) for _ in range(instants)]

    async def killed(session_id: str, point: str, dies_at: int) -> int:
        command = [sys.executable, "-m", "tests.actors.rewinder", str(world.settings.storage_path.parent)]
        victim = await asyncio.create_subprocess_exec(*command, session_id, point, str(dies_at))
        return await victim.wait()

    ended: list[int] = []
    for first in range(0, instants, 2):  # as many at once as there are processors
        pair = [killed(*made[n], n) for n in range(first, first + 2)]
        ended += await asyncio.gather(*pair)
    assert set(ended) == {0, -signal.SIGKILL} and ended[0] == 0 and ended[1] != 0
    happened: list[bool] = []
    for (session_id, point), status in zip(made, ended, strict=True):
        heads = await world.store.heads(session_id)
        happened.append(bool(heads))
        assert heads or status != 0
        assert bool(await world.store.inbox(session_id)) == (not heads), "it waits until it has happened"
        session = await world.activate(session_id, world.model(scripted_model()))
        assert await world.store.inbox(session_id) == []
        files = await in_sandbox(session)
        assert files["src/App.tsx"] == b"// 1"
        assert "src/components/Only2.tsx" not in files and "src/components/Only1.tsx" in files
        assert len(await world.store.messages(session_id)) == 1
        # said again under its key, it has happened once
        await submit(session, "rewind", {"to": point}, key="rewind")
        assert len(await world.store.heads(session_id)) == 1
        assert (await in_sandbox(session))["src/App.tsx"] == b"// 1"
        await world.say(session, "rewind", undo=True)
        undone = await in_sandbox(session)
        assert undone["src/App.tsx"] == b"// 2" and "src/components/Only2.tsx" in undone
        assert ("src/unsaved.ts" in undone) or not heads, "what was not saved yet is saved before going back"
        await session.close()
    assert {False, True} == set(happened)
    janitor = Janitor(
        store=world.store,
        reaper=Reaper(store=world.store, sandboxes=world.sandboxes, settings=world.settings),
        settings=world.settings,
        chores=Chores(wake=_nobody, finish=_nobody),
    )
    await janitor.clear()
    assert await world.sandboxes.list() == []


async def _nobody(_: object) -> None:
    raise AssertionError("nothing is owed")
