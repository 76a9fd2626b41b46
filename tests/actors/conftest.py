"""A world without Ray: real store, storage, sandbox, browser and encoder; a scripted model behind the real SDK."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from koda_ray.actors.parts import sandbox_provider
from koda_ray.actors.session import Session
from koda_ray.actors.session_parts import SessionParts
from koda_ray.agent.named_hooks import NamedHooks
from koda_ray.config import Settings
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.base import ModelProvider
from koda_ray.render.local import LocalExecutor
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from koda_ray.types import NodeState, new_id
from tests.actors.house import House
from tests.actors.script import scripted_model
from tests.commands import submit
from tests.disks import small
from tests.llm.server import Answer, ModelServer, Recorded, ScriptedModel

__all__ = ["SessionWorld"]


class SessionWorld:
    """Makes sessions and waits for them."""

    def __init__(self, folder: Path, executor: LocalExecutor) -> None:
        self.settings = Settings(
            storage_path=folder / "storage",
            database_path=folder / "koda.db",
            sandbox_path=folder / "sandboxes",
            page_ready_timeout_s=60,
        )
        self.store = SqlStore(self.settings.database_path)
        self.storage = Storage.from_settings(self.settings)
        self.sandboxes = sandbox_provider(self.settings, deployment="dep_test")
        self.executor = executor
        self.sessions: list[Session] = []
        self.ended = 0
        self.ahead_s = 0.0
        """How far the clocks of sessions are ahead of this machine's."""
        self._servers: list[ModelServer] = []
        self.providers: list[ModelProvider] = []

    def model(self, respond: Callable[[dict[str, Any]], Answer]) -> ModelProvider:
        """Put a script behind the real SDK."""
        server = ModelServer(ScriptedModel(respond)).__enter__()
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        self._servers.append(server)
        self.providers.append(provider)
        return provider

    @property
    def requests(self) -> list[Recorded]:
        """What scripts were asked, with what of it came from the cache."""
        return [record for server in self._servers for record in server.requests]

    async def row(self, prompt: str = "a dot crosses, smooth", **fields: object) -> str:
        """Insert a session's row as the API does."""
        session_id = new_id("ses")
        await self.store.ensure_user("local")
        await self.store.ensure_project("local", "local", "local")
        state = NodeState.model_validate(
            {
                "node_id": new_id("nod"),
                "user_id": "local",
                "project_id": "local",
                "session_id": session_id,
                "owes": "analyze",
                "prompt": prompt,
                **fields,
            }
        )
        await self.store.create_session(state, key=session_id, body={"prompt": prompt})
        return session_id

    async def activate(self, session_id: str, provider: ModelProvider, **settings: object) -> Session:
        """Activate a session in this process."""
        chosen = self.settings.model_copy(update=settings)
        parts = SessionParts(
            settings=chosen,
            store=self.store,
            storage=self.storage,
            sandboxes=self.sandboxes,
            provider=provider,
            executor=self.executor,
            host="test:0",
            rested=lambda: None,
            ended=self._ended,
            hooks=NamedHooks(chosen.hook_names).of,
            clock=lambda: time.monotonic() + self.ahead_s,
        )
        session = await Session.open(session_id, parts)
        self.sessions.append(session)
        return session

    def _ended(self) -> None:
        self.ended += 1

    async def open(
        self, prompt: str = "a dot crosses, smooth", respond: Callable[[dict[str, Any]], Answer] | None = None
    ) -> Session:
        """Make and activate a session with a script of its own."""
        return await self.activate(await self.row(prompt), self.model(respond or scripted_model()))

    async def at_rest(self, respond: Callable[[dict[str, Any]], Answer] | None = None) -> Session:
        """Make and activate a session in the middle of its work, whose agents do nothing: the test does it."""
        row = await self.row(phase="executing", owes=None, execution={}, plan_accepted=True)
        return await self.activate(row, self.model(respond or scripted_model()))

    async def to_preview(self, session: Session) -> None:
        """Accept a session's plan, and wait for its preview."""
        await self.until(session, "plan")
        await self.say(session, "accept")
        await self.until(session, "preview")

    async def until(self, session: Session, *phases: str, limit_s: float = 120) -> NodeState:
        """Wait until a session rests in one of these phases, owing nothing."""
        deadline = time.monotonic() + limit_s
        while session.state.phase not in phases or session.state.owes is not None:
            assert time.monotonic() < deadline, f"still {session.state.phase} owing {session.state.owes}"
            assert session.state.phase != "error" or "error" in phases, session.state.error
            await asyncio.sleep(0.02)  # states are polled as clients do it
        return session.state

    async def event(self, session: Session, kind: str, count: int = 1, limit_s: float = 60) -> None:
        """Wait until a session has told so many events of a kind."""
        async with asyncio.timeout(limit_s):
            while len(await self.events(session, kind)) < count:
                await asyncio.sleep(0.02)

    async def say(self, session: Session, name: str, **body: Any) -> None:
        """Give a command as the person."""
        await submit(session, name, body, key=new_id("cmd"))

    async def events(self, session: Session, *types: str) -> list[dict[str, Any]]:
        """Read the data of events, of some types when named."""
        found = await self.store.events(session.session_id, limit=10_000)
        return [dict(event.data) for event in found if not types or event.type in types]

    async def close(self) -> None:
        """Close everything."""
        for session in self.sessions:
            await session.close()
        for provider in self.providers:
            await provider.close()
        for server in self._servers:
            server.__exit__(None, None, None)
        await self.store.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    await asyncio.to_thread(tmp_path.chmod, 0o755)  # sandboxes run as another user
    async with LocalExecutor(workers=2) as executor:
        made = SessionWorld(tmp_path, executor)
        await made.store.open()
        try:
            yield made
        finally:
            await made.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB that can be filled."""
    with small(tmp_path / "small", 4) as folder:
        yield folder


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    await asyncio.to_thread(tmp_path.chmod, 0o755)
    made = House(tmp_path)
    await made.store.open()
    try:
        yield made
    finally:
        await made.close()
