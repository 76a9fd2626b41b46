"""A session whose sandbox is at E2B: from its first sentence to its preview, though the sandbox is ended on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from koda_ray.config import Settings
from tests.actors.conftest import SessionWorld
from tests.actors.script import APP, scripted_model
from tests.llm.server import reply
from tests.sandbox.e2b import provider_of
from tests.sandbox.e2b_server import E2BServer
from tests.sandbox.e2b_server.machine import TemplateImage

pytestmark = [pytest.mark.full, pytest.mark.needs("e2b"), pytest.mark.browser]


@pytest.fixture
async def server() -> AsyncIterator[E2BServer]:
    settings = Settings()
    async with E2BServer(
        {"koda": TemplateImage(settings.template_path, settings.node_modules_path)}
    ).serving() as running:
        yield running


async def test_one_that_e2b_ends_during_the_work_is_replaced_with_nothing_lost(
    world: SessionWorld, server: E2BServer
) -> None:
    world.sandboxes = provider_of(server, pids=256)
    session = await world.open("a dot", scripted_model(scenes=3, pause_s=0.03))
    await world.until(session, "plan")
    await world.say(session, "accept")
    await world.event(session, "file_written", 3)
    lost = session.state.sandbox_id
    assert lost is not None
    await server.end(server.of(lost).id)
    await world.until(session, "preview")
    assert session.state.sandbox_id != lost
    sandbox = await session.project.sandbox()
    assert sandbox.provider == "e2b"
    assert await sandbox.read_file("src/App.tsx") == APP.encode()
    await session.close()
    assert server.kept == {}


async def test_a_session_at_work_keeps_its_sandbox_while_nobody_uses_it(world: SessionWorld, server: E2BServer) -> None:
    world.sandboxes = provider_of(server, pids=256, lifetime_s=60)
    row = await world.row(phase="executing", owes="execute", execution={}, plan_accepted=True)
    session = await world.activate(
        row, world.model(lambda _: reply("hm", hang=True)), lease_s=0.3, heartbeat_s=600, sandbox_lifetime_s=900
    )
    await session.project.sandbox()
    assert session.state.sandbox_id is not None
    kept = server.of(session.state.sandbox_id)
    before = kept.ends_at
    async with asyncio.timeout(60):
        while (kept.ends_at - datetime.now(UTC)).total_seconds() < 800:
            await asyncio.sleep(0.02)
    assert session.state.owes == "execute" and kept.ends_at > before
    # once is enough for a third of it
    asked = len(server.gateway.seen)
    await asyncio.sleep(0.5)
    assert len(server.gateway.seen) == asked
    await session.close()
    assert server.kept == {}
