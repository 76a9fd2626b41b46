"""The whole product as people have it: a server of its own, its sessions and renders as actors of a Ray cluster.

What is served lies in the same places as in `tests.cassettes.product`, so a conversation that began there goes on here.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.server import Server
from koda_ray.client import KodaClient
from koda_ray.config import Settings
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store
from tests.llm.server import ModelServer

__all__ = ["Served", "served"]


@dataclass(frozen=True)
class Served:
    """A server, its client, and its database."""

    server: Server
    client: KodaClient
    store: Store

    async def put_away(self, session_id: str) -> None:
        """Kill a session's process: Ray begins another, which goes on from the rows."""
        host = (await self.store.get_session(session_id)).host or ""
        if host:  # else it has ended by itself
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(host.rpartition(":")[2]), signal.SIGKILL)

    async def at_rest(self, session_id: str) -> bool:
        """Whether nothing is under way: what is, holds a part of the budget."""
        charges = await self.store.charges(session_id)
        return not any(charge.kind != "sandbox" and charge.status == "reserved" for charge in charges)


@asynccontextmanager
async def served(folder: Path, model: ModelServer, settings: Mapping[str, Any]) -> AsyncGenerator[Served]:
    """Serve what lies in a folder, or begin it there."""
    database = folder / "koda.db"
    server = Server(
        folder,
        STORAGE_PATH=str(folder / "storage"),
        DATABASE_PATH=str(database),
        SANDBOX_PATH=str(folder / "sandboxes"),
        SANDBOX_PROVIDER="local",
        ANTHROPIC_API_KEY=model.api_key,
        ANTHROPIC_BASE_URL=model.base_url,
        KODA_PAGE_READY_TIMEOUT_S="60",
        **{str(Settings.model_fields[name].validation_alias): str(value) for name, value in settings.items()},
    )
    async with server, KodaClient(server.url) as client:
        store = SqlStore(database)
        await store.open()
        try:
            yield Served(server, client, store)
        finally:
            await store.close()
