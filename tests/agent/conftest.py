from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koda_ray.state.json_store import JSONStore
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store


@pytest.fixture(scope="session", params=["sqlite", pytest.param("json", marks=pytest.mark.full)])
def backing(request: pytest.FixtureRequest) -> str:
    """Which store: those of one process, or what `tests.agent.everywhere` names, with the servers that it needs."""
    # asked for in a fixture of the session: what a test starts on its own has to end with it
    if request.param in ("postgres", "libsql"):
        request.getfixturevalue(f"{request.param}_template")
    return request.param


@pytest.fixture
async def store(request: pytest.FixtureRequest, backing: str, tmp_path: Path) -> AsyncIterator[Store]:
    """A store without anything in it."""
    if backing == "json":
        store: Store = JSONStore(tmp_path / "agents")
    else:
        store = SqlStore(tmp_path / "agents.db" if backing == "sqlite" else request.getfixturevalue(f"{backing}_url"))
    await store.open()
    yield store
    await store.close()
