"""A real server on a real Ray, with a scripted model behind the real SDK, to kill things under.

One server for all tests of this folder, since starting one takes longer than most of them; whoever ends it starts it
again. Its sessions fall asleep and are taken up again quickly, and each test's are deleted after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from benchmarks.server import Server
from koda_ray.client import KodaClient
from koda_ray.events import Envelope
from koda_ray.serve import runfile
from koda_ray.state.records import SessionRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from koda_ray.types import NodeState
from tests import leaks
from tests.actors.script import scripted_model
from tests.faults import deadly
from tests.faults.story import nothing_twice_nothing_lost
from tests.llm.server import Answer, ModelServer, ScriptedModel
from tests.serve.world import free_port

__all__ = ["Rig", "until"]


class Rig:
    """The server, a client, the database beside it, and the model's script."""

    def __init__(self, folder: Path, model: ModelServer, **settings: str) -> None:
        self.deadly = folder / "deadly"
        self.deadly.mkdir()
        found = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", ""))))
        self.server = Server(
            folder,
            KODA_HOOKS="tests.faults.deadly:hook",
            PYTHONPATH=found,
            ANTHROPIC_API_KEY="test-key",
            ANTHROPIC_BASE_URL=model.base_url,
            KODA_DIRECTOR="anthropic",
            **{deadly.FOLDER: str(self.deadly)},
            **settings,
        )
        self.respond: Callable[[dict[str, Any]], Answer] = scripted_model()
        self.storage = Storage(str(self.server.data / "storage"))
        self._seen: dict[str, int] = {}
        self._killed: dict[str, int] = {}

    async def open(self) -> None:
        await self.start()
        self.store = SqlStore(self.server.data / "koda.db")
        await self.store.open()

    async def start(self) -> None:
        """Start the server, also again: it answers at another address then."""
        await self.server.start()
        running = runfile.read(self.server.data / "server.json")
        assert running is not None
        leaks.adopt(running.pid)  # ends with the fixture, whichever test started it
        self.client = KodaClient(self.server.url)

    async def stop(self) -> None:
        """End the server as a person does."""
        await self.client.close()
        await self.server.stop()

    async def kill(self) -> None:
        """End the server as a power cut does."""
        await self.client.close()
        await self.server.kill()

    async def clear(self) -> None:
        """Delete every session, on a server that may have to be started for it."""
        if runfile.read(self.server.data / "server.json") is None:
            await self.stop()
            await self.start()
        for session in (await self.client.sessions()).sessions:
            await self.client.delete(session.id)
        self.respond = scripted_model()

    async def close(self) -> None:
        await self.stop()
        await self.store.close()

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
        row = await self.activated(session_id, after=self._killed.get(session_id, 0))
        self._killed[session_id] = row.epoch
        assert row.host is not None
        os.kill(int(row.host.rpartition(":")[2]), signal.SIGKILL)
        return row.epoch

    async def activated(self, session_id: str, *, after: int) -> SessionRecord:
        """Wait until a session is held by an activation that is newer than an epoch."""
        deadline = time.monotonic() + 60
        while (row := await self.store.get_session(session_id)).epoch <= after or row.host is None:
            assert time.monotonic() < deadline, f"nobody took session {session_id} up\n{self.server.log()[-3000:]}"
            await asyncio.sleep(0.02)
        return row

    async def asleep(self, session_id: str) -> SessionRecord:
        """Wait until nobody holds a session, nor any other: the processes are gone as well."""
        deadline = time.monotonic() + 60
        while (row := await self.store.get_session(session_id)).host is not None or self.workers("_SessionHost"):
            assert time.monotonic() < deadline, f"never asleep\n{self.server.log()[-3000:]}"
            await asyncio.sleep(0.05)
        return row

    def processes(self, text: str) -> list[psutil.Process]:
        """The server's processes whose command lines hold a text; what other servers of this machine have is theirs."""
        server = runfile.read(self.server.data / "server.json")
        assert server is not None, "the server does not run"
        found: list[psutil.Process] = []
        for process in psutil.Process(server.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if text in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def workers(self, name: str) -> list[psutil.Process]:
        """Ray's processes that run a task of this name."""
        return self.processes(f"ray::{name}")

    async def nothing_twice_nothing_lost(self, session_id: str) -> None:
        """Hold a session's story and its files against what may happen once, and must not go."""
        await nothing_twice_nothing_lost(self.store, self.storage, session_id)


async def until(done: Callable[[], bool], what: str, *, limit_s: float = 60) -> None:
    """Poll until something is so."""
    deadline = time.monotonic() + limit_s
    while not await asyncio.to_thread(done):
        assert time.monotonic() < deadline, f"never {what}"
        await asyncio.sleep(0.05)


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def _rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("rig")
    await asyncio.to_thread(folder.chmod, 0o755)
    rigs: list[Rig] = []
    with ModelServer(ScriptedModel(lambda request: rigs[0].respond(request))) as model:
        port = str(free_port())  # previews have a host of their own, as behind a proxy
        shown = {"KODA_PREVIEW_PORT": port, "KODA_PREVIEW_ORIGIN": f"http://localhost:{port}"}
        rigs.append(Rig(folder, model, KODA_HEARTBEAT_S="2", KODA_IDLE_TIMEOUT_S="5", KODA_LEASE_S="1.5", **shown))
        await rigs[0].open()
        try:
            yield rigs[0]
        finally:
            await rigs[0].close()


@pytest_asyncio.fixture(loop_scope="package")
async def rig(_rig: Rig) -> AsyncIterator[Rig]:
    said = len(_rig.server.log())
    yield _rig
    sys.stdout.write(_rig.server.log()[said:][-8000:])  # shown where the test fails
    await _rig.clear()
