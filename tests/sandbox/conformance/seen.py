"""What the suite looks at, and waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import httpx

from koda_ray.errors import (
    NotFound,
)
from koda_ray.sandbox.base import FileChange, PreviewEndpoint, Sandbox
from koda_ray.sandbox.preview import BAD_GATEWAY, http_client

__all__ = ["Told", "exists", "got", "made_large", "prints", "until", "watching"]


class Told:
    """What a watch has told so far."""

    def __init__(self, changes: AsyncGenerator[tuple[FileChange, ...]]) -> None:
        self._changes = changes
        self.seen: dict[str, str] = {}
        self.count = 0

    async def until(self, wanted: dict[str, str]) -> None:
        """Take batches until exactly these changes were told since the last call, in any number of batches."""
        self.seen = {}
        async with asyncio.timeout(60):
            while not wanted.items() <= self.seen.items():
                for change in await anext(self._changes):
                    self.count += 1
                    self.seen[change.path] = change.kind
        assert self.seen == wanted


@asynccontextmanager
async def watching(box: Sandbox, path: str = ".") -> AsyncGenerator[Told]:
    async with aclosing(box.watch(path)) as changes:
        assert await anext(changes) == ()
        yield Told(changes)


async def got(endpoint: PreviewEndpoint, path: str) -> str:
    assert endpoint.base == "/"
    async with http_client(endpoint, timeout=httpx.Timeout(60)) as client:
        answer = await client.get(path)
        if answer.status_code == BAD_GATEWAY:
            raise httpx.ConnectError("nobody is behind the gateway")
        return answer.text


async def made_large(box: Sandbox, path: str) -> dict[str, str]:
    """Make a file larger than a checkpoint takes, and say so; where the disk's limit forbids it, nothing happens."""
    made = await box.run(("truncate", "-s", "300M", path))
    return {path: "large"} if made.exit_code == 0 else {}


async def exists(box: Sandbox, path: str) -> bool:
    try:
        return bool(await box.read_file(path))
    except NotFound:
        return False


async def prints(box: Sandbox, name: str, text: str) -> bool:
    return text in await box.output(name)


async def until(done: Callable[[], Awaitable[bool]], *, deadline_s: float = 60.0) -> None:
    async with asyncio.timeout(deadline_s):
        while not await done():
            await asyncio.sleep(0.02)
