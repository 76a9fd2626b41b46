"""A real server on a real Ray, with a scripted model behind the real SDK, to kill things under."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.server import Server
from koda_ray.client import KodaClient
from koda_ray.events import Envelope
from koda_ray.state.sql import SqlStore
from koda_ray.types import NodeState
from tests.actors.script import studio_model
from tests.llm.server import Answer, ModelServer, ScriptedModel

__all__ = ["Rig"]


class Rig:
    """The server, a client, the database beside it, and the model's script."""

    def __init__(self, folder: Path, model: ModelServer, **settings: str) -> None:
        self.server = Server(
            folder,
            ANTHROPIC_API_KEY="test-key",
            ANTHROPIC_BASE_URL=model.base_url,
            KODA_DIRECTOR="anthropic",
            **{"KODA_HEARTBEAT_S": "2", **settings},
        )
        self.respond: Callable[[dict[str, Any]], Answer] = studio_model()
        self._seen: dict[str, int] = {}
        self._killed: dict[str, int] = {}

    async def open(self) -> None:
        await self.server.start()
        self.store = SqlStore(self.server.data / "koda.db")
        await self.store.open()
        self.client = KodaClient(self.server.url)

    async def close(self) -> None:
        await self.client.close()
        await self.store.close()
        await self.server.stop()
        sys.stdout.write(self.server.log()[-8000:])  # shown where the test fails

    async def until(self, session_id: str, done: Callable[[NodeState], bool], *, limit_s: float = 120) -> NodeState:
        """Poll a state; an error phase that is not wanted fails at once."""
        deadline = time.monotonic() + limit_s
        while True:
            state = (await self.store.get_session(session_id)).state
            if done(state):
                return state
            assert state.phase != "error", f"{state.error}\n{self.server.log()[-3000:]}"
            assert time.monotonic() < deadline, f"still {state.phase} owing {state.owes}\n{self.server.log()[-3000:]}"
            await asyncio.sleep(0.05)

    async def rests(self, session_id: str, phase: str, *, limit_s: float = 120) -> NodeState:
        """Wait until a session rests in a phase."""
        return await self.until(session_id, lambda s: s.phase == phase and s.owes is None, limit_s=limit_s)

    async def event(self, session_id: str, wanted: Callable[[Envelope], bool], *, limit_s: float = 60) -> Envelope:
        """Wait for an event after the last one that this returned or passed."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            for event in await self.store.events(session_id, after=self._seen.get(session_id, 0), limit=1000):
                self._seen[session_id] = event.seq
                if wanted(event):
                    return event
            await asyncio.sleep(0.02)
        raise AssertionError(f"no such event\n{self.server.log()[-3000:]}")

    async def kill_session(self, session_id: str) -> int:
        """SIGKILL the process of the session's present activation, once it has one; return its epoch."""
        deadline = time.monotonic() + 30
        while (epoch := (await self.store.get_session(session_id)).epoch) <= self._killed.get(session_id, 0):
            assert time.monotonic() < deadline, f"nobody took session {session_id} up\n{self.server.log()[-3000:]}"
            await asyncio.sleep(0.02)
        self._killed[session_id] = epoch
        os.kill(await self.server.session_pid(session_id), signal.SIGKILL)
        return epoch

    def workers(self, name: str) -> list[psutil.Process]:
        """Ray's processes that run a task of this name."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter(["cmdline"]):
            if any(f"ray::{name}" in part for part in process.info["cmdline"] or []):
                found.append(process)
        return found


@pytest.fixture(scope="module")
def _model() -> Iterator[tuple[ModelServer, list[Rig]]]:
    rigs: list[Rig] = []
    with ModelServer(ScriptedModel(lambda request: rigs[0].respond(request))) as server:
        yield server, rigs


@pytest.fixture
async def rig(tmp_path_factory: pytest.TempPathFactory, _model: tuple[ModelServer, list[Rig]]) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("rig")
    await asyncio.to_thread(folder.chmod, 0o755)
    server, rigs = _model
    made = Rig(folder, server)
    rigs[:] = [made]
    await made.open()
    try:
        yield made
    finally:
        await made.close()
