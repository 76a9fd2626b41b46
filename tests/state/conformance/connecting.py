"""How a conformance suite gets at the store that it is run on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store

__all__ = ["Connect", "connecting"]

Connect = Callable[[], Awaitable[Store]]
"""Opens a store on the test's database, which shares nothing with the others but that."""


@asynccontextmanager
async def connecting(where: Path | str) -> AsyncGenerator[Connect]:
    """Open stores on a SQL database, and close them all at the end."""
    stores: list[SqlStore] = []

    async def connect() -> SqlStore:
        store = SqlStore(where)
        await store.open()
        stores.append(store)
        return store

    yield connect
    for store in stores:
        await store.close()
