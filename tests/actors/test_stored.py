"""A session whose user has stored as much as they may: it is told, nothing is lost, and it goes on with room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koda_ray.actors.session import Session
from koda_ray.state.records import AssetRecord
from tests.actors.conftest import SessionWorld
from tests.actors.script import scripted_model
from tests.state import records


async def filled(world: SessionWorld) -> AssetRecord:
    """Store as much for the user as they may have where that is a megabyte."""
    asset = replace(records.asset("local"), project_id="local", size_bytes=2 << 20)
    await world.store.add_asset(asset)
    return asset


async def paused(world: SessionWorld, session: Session) -> None:
    state = await world.until(session, "question")
    assert state.paused is not None and (state.paused.resource, state.paused.raise_to) == ("stored", None)
    assert state.question is not None and "2.1 MB of 1.0 MB that may be yours are stored" in state.question.text
    assert [option.id for option in state.question.options] == ["again", "stop"]


async def test_agents_ask_before_they_begin_what_could_not_be_stored(world: SessionWorld) -> None:
    asset = await filled(world)
    session = await world.activate(await world.row(), world.model(scripted_model()), user_stored_mb=1)
    await paused(world, session)
    await world.say(session, "answer", optionId="again")
    await paused(world, session)
    assert world.requests == [], "no model was asked for nothing"
    await world.store.remove_asset(asset.id, user_id="local")
    await world.say(session, "answer", optionId="again")
    await world.until(session, "plan")


@pytest.mark.sandbox
async def test_what_is_there_is_saved_when_the_sandbox_ends_and_not_before(world: SessionWorld) -> None:
    row = await world.row(phase="executing", owes=None, execution={}, plan_accepted=True)
    session = await world.activate(row, world.model(scripted_model()), user_stored_mb=1)
    sandbox = await session.project.sandbox()
    await session.project.save("files")
    stored = await world.store.stored_bytes("local")
    assert stored == sum([await world.storage.size(key) for key in await world.storage.list()]) > 0
    asset = await filled(world)
    for number in range(3):
        await sandbox.write_files({"src/grown.ts": b"%d" % number * 1000})
        await session.project.save("heartbeat")
    assert await world.store.stored_bytes("local") == stored + asset.size_bytes, "nothing more was stored by itself"
    told = [event for event in await world.events(session, "checkpoint") if event.get("failed")]
    assert [event["code"] for event in told] == ["LIMIT_REACHED"] and "saved when the sandbox ends" in told[0][
        "message"
    ]
    await session.project.release("idle")
    newest = await world.store.latest_checkpoint(row)
    assert newest is not None and newest.trigger == "idle"
    assert (await session.project.look(dict))["src/grown.ts"] == b"2" * 1000, "nothing is lost"
    await world.store.remove_asset(asset.id, user_id="local")
    await (await session.project.sandbox()).write_files({"src/grown.ts": b"more"})
    await session.project.save("heartbeat")
    newest = await world.store.latest_checkpoint(row)
    assert newest is not None and newest.trigger == "heartbeat"
