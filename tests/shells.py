"""Fixtures of who tests the command line: a server, a shell beside it, and the server's client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koda_ray.client import KodaClient
from tests.serve.world import World, world
from tests.shell import Shell

__all__ = ["client", "koda", "shell"]


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as found:
        yield found


@pytest.fixture
def shell(koda: World, tmp_path: Path) -> Shell:
    return Shell(tmp_path, koda.url)


@pytest.fixture
async def client(koda: World) -> AsyncIterator[KodaClient]:
    async with KodaClient(koda.url) as found:
        yield found
