from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from koda_ray.client import KodaClient

from .world import World, world


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as found:
        yield found


@pytest.fixture
async def http(koda: World) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture
async def client(koda: World) -> AsyncIterator[KodaClient]:
    async with KodaClient(koda.url) as found:
        yield found
