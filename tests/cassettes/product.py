"""The whole product in this process, without Ray: HTTP, sessions, sandboxes, browsers, encoder, the real model SDK.

What Ray's directory does on a cluster is done here for one process: a session is activated by the first command, each
activation with a store, a provider and all else of its own, made from settings as in an actor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from koda_ray.actors.parts import open_parts, open_store
from koda_ray.actors.removal import Removal
from koda_ray.actors.session import Session
from koda_ray.actors.session_parts import SessionParts
from koda_ray.actors.timeline import fork_session
from koda_ray.client import KodaClient
from koda_ray.config import Settings
from koda_ray.render.protocol import RenderExecutor
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.serve.api import create_app
from koda_ray.serve.auth import Authenticator
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.signing import Signer
from koda_ray.state.records import CommandRecord
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store
from tests.commands import submit
from tests.llm.server import ModelServer
from tests.serve.world import serving

__all__ = ["Product", "product"]


@dataclass
class Product:
    """Sessions of this process; also the directory that the server finds them in."""

    settings: Settings
    store: Store
    storage: Storage
    executor: RenderExecutor
    client: KodaClient = field(init=False)
    _active: dict[str, tuple[Session, SessionParts]] = field(default_factory=dict)
    _activating: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def submit(
        self, *, session_id: str, user_id: str, name: str, body: Mapping[str, JsonValue], key: str
    ) -> CommandRecord:
        session = await self._session(session_id)
        return await submit(session, name, body, key=key, user_id=user_id)

    async def wake(self, session_id: str) -> None:
        await self._session(session_id)

    async def preview(self, *, session_id: str, user_id: str) -> PreviewEndpoint:
        return await (await self._session(session_id)).preview(user_id)

    async def shown(self, *, session_id: str, user_id: str) -> PreviewEndpoint | None:
        found = self._active.get(session_id)
        return None if found is None else await found[0].shown(user_id)

    async def watch(self, session_id: str, watchers: int) -> None:
        if session_id in self._active:
            await self._active[session_id][0].watch(watchers)

    async def fork(self, *, session_id: str, user_id: str, point: str | None, key: str) -> str:
        return await fork_session(self.store, session_id, user_id=user_id, point=point, key=key)

    async def delete(self, *, session_id: str, user_id: str) -> None:
        closed = await self.store.close_session(session_id, user_id=user_id)
        sandboxes = self._active[session_id][1].sandboxes if session_id in self._active else None
        await self.put_away(session_id)
        if sandboxes is not None:
            await Removal(store=self.store, storage=self.storage, sandboxes=sandboxes).finish(closed)

    async def put_away(self, session_id: str) -> None:
        """End a session's activation, as its process does when it is idle or leaves its machine."""
        if (found := self._active.pop(session_id, None)) is not None:
            session, parts = found
            await session.close()
            await parts.store.close()
            close: Any = getattr(parts.provider, "close", None)
            await close()

    async def at_rest(self, session_id: str) -> bool:
        """Whether an activation's work has come to its end; the row says it some moments earlier."""
        found = self._active.get(session_id)
        return found is None or not found[0].working

    async def close(self) -> None:
        for session_id in list(self._active):
            await self.put_away(session_id)

    async def _session(self, session_id: str) -> Session:
        async with self._activating:
            if session_id not in self._active:
                parts = await open_parts(
                    self.settings, executor=self.executor, host="test:0", rested=lambda: None, ended=lambda: None
                )
                self._active[session_id] = await Session.open(session_id, parts), parts
            return self._active[session_id][0]


@asynccontextmanager
async def product(
    executor: RenderExecutor, folder: Path, model: ModelServer, settings: Mapping[str, Any]
) -> AsyncGenerator[Product]:
    """Serve what lies in a folder, or begin it there."""
    made = Settings(
        storage_path=folder / "storage",
        database_path=folder / "koda.db",
        sandbox_path=folder / "sandboxes",
        sandbox_provider="local",
        anthropic_api_key=model.api_key,
        anthropic_base_url=model.base_url,
        page_ready_timeout_s=60,
        **settings,
    )
    store = await open_store(made)
    found = Product(made, store, Storage.from_settings(made), executor)
    deps = ApiDeps(
        settings=made,
        store=store,
        storage=found.storage,
        directory=found,  # page renders are not asked for
        auth=Authenticator.from_settings(made, store),
        signer=Signer.from_settings(made),
    )
    try:
        async with serving(create_app(deps)) as url, KodaClient(url) as client:
            found.client = client
            try:
                yield found
            finally:
                await found.close()
    finally:
        await store.close()
