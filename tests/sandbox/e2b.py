"""Fixtures for tests of the E2B provider: the protocol server with a small template, and a provider for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from koda_ray.sandbox.e2b import E2BProvider
from koda_ray.sandbox.e2b_cloud import E2BCloud, E2BTerms
from koda_ray.sandbox.e2b_sandbox import E2BSandbox
from koda_ray.types import new_id
from tests.sandbox.e2b_server import API_KEY, E2BServer
from tests.sandbox.e2b_server.machine import TemplateImage

__all__ = ["Ids", "box", "cloud_of", "make", "no_task_is_left", "provider", "provider_of", "server", "until"]


class Ids:
    """Hands out ids."""

    def new_id(self) -> str:
        return new_id("sbx")


@pytest.fixture
async def server(template: Path, node_modules: Path) -> AsyncIterator[E2BServer]:
    """A server whose machines are gone at the end, with all that ran in them."""
    images = {"koda": TemplateImage(template, node_modules), "base": TemplateImage(None, None)}
    async with E2BServer(images).serving() as running:
        yield running
        left = {kept.id: [psutil.Process(pid) for pid in kept.machine.pids] for kept in running.kept.values()}
    for name, processes in left.items():
        _, alive = psutil.wait_procs(processes, 10)
        assert not alive, f"{name} left {alive}"


def cloud_of(server: E2BServer, **changed: object) -> E2BCloud:
    """The server as a cloud."""
    given: dict[str, object] = {
        "api_key": API_KEY, "api_url": server.url, "sandbox_url": server.url, "domain": "e2b.test",
    }  # fmt: skip
    return E2BCloud(**{**given, **changed})  # type: ignore[arg-type]


def provider_of(
    server: E2BServer,
    *,
    template: str = "koda",
    deployment: str = "",
    cloud: E2BCloud | None = None,
    **terms: object,
) -> E2BProvider:
    """A provider for the server, each a deployment of its own where nothing else is said."""
    return E2BProvider(
        cloud or cloud_of(server),
        template=template,
        deployment=deployment or uuid4().hex,
        terms=E2BTerms(**{"pids": 64, **terms}),  # type: ignore[arg-type]
    )


async def make(provider: E2BProvider) -> E2BSandbox:
    """Make a sandbox for somebody."""
    return await provider.create(sandbox_id=new_id("sbx"), session_id="ses_a", user_id="usr_a")


@pytest.fixture
def provider(server: E2BServer) -> E2BProvider:
    """One for the server."""
    return provider_of(server)


@pytest.fixture
async def box(provider: E2BProvider) -> E2BSandbox:
    """One that it has made."""
    return await make(provider)


@pytest.fixture(autouse=True)
async def no_task_is_left() -> AsyncIterator[None]:
    """What renews a lifetime ends with the test."""
    before = asyncio.all_tasks()
    yield
    left = [task for task in asyncio.all_tasks() - before if "sandbox-lifetime" in task.get_name()]
    assert left == []


async def until(done: Callable[[], Awaitable[bool]], *, deadline_s: float = 60.0) -> None:
    """Wait for something, and fail where it does not come."""
    async with asyncio.timeout(deadline_s):
        while not await done():
            await asyncio.sleep(0.05)
