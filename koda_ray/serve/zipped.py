"""A project as a zip that is sent: made in a file, since nobody keeps it in memory while a slow client reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from fastapi import Request, Response
from fastapi.responses import FileResponse

from koda_ray.cancellation import finish
from koda_ray.errors import QuotaExceeded
from koda_ray.sandbox.archives import ProjectFiles, pack, packed_bytes
from koda_ray.sandbox.scratch import scratch
from koda_ray.serve.context import disk_of, unpacking_of, user_of
from koda_ray.serve.unpacking import read_within

__all__ = ["zipped"]

_NAMES_BYTES = 1024 * 1024
"""What a zip's own lists take on the disk at most, of a project whose names nobody knows yet: those of 3,000 files."""


class _Zip(FileResponse):
    """A file in pieces that Ray keeps in its store, not in a process of ours (`koda_ray.serve.unread`)."""

    chunk_size = 256 * 1024


async def zipped(
    read: Callable[[int], Awaitable[ProjectFiles]],
    name: str,
    request: Request,
    closing: AsyncExitStack,
) -> Response:
    """Return an answer with a project's zip; ``closing`` removes the file once it is sent, and gives its room back.

    Args:
        read: Reads so many bytes of the project at most, as of `read_within`.
        name: What the zip is called.
        request: Whose room it takes: of the disk first, as an upload does, and then of memory.
        closing: Ends with the request.

    Raises:
        LimitReached: There was no room for it, and so TooMuchAtOnce.
        QuotaExceeded: It has grown each time it was looked at.
    """
    user = user_of(request)
    lies = AsyncExitStack()

    @asynccontextmanager
    async def reserved(size: int) -> AsyncGenerator[None]:
        async with AsyncExitStack() as held:
            on_disk = await held.enter_async_context(disk_of(request).holding(user, _as_zip_bytes(size)))
            async with unpacking_of(request).holding(user, size):
                yield
            if path.exists():
                await on_disk.keep(path.stat().st_size)
                lies.push_async_exit(held.pop_all())

    async with lies:
        path = lies.enter_context(scratch()) / "packed.zip"
        async with read_within(reserved, partial(_fitting, read)) as project:
            await finish(asyncio.to_thread(_pack, project, path))
        closing.push_async_exit(lies.pop_all())
    told = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return _Zip(path, media_type="application/octet-stream", filename=name, headers=told)


def _as_zip_bytes(size: int) -> int:
    """Return how much room a zip of so many bytes needs on the disk: what does not shrink grows."""
    return size + (size >> 10) + _NAMES_BYTES


async def _fitting(read: Callable[[int], Awaitable[ProjectFiles]], most_bytes: int) -> ProjectFiles:
    """Read a project that fits in memory as it is, and on the disk as a zip."""
    project = await read(most_bytes)
    if (size := packed_bytes(project)) > (most := _as_zip_bytes(most_bytes)):
        raise QuotaExceeded(
            f"a zip of {size:,} bytes is more than the {most:,} there is room for",
            context={"sizeBytes": size, "mostBytes": most},
        )
    return project


def _pack(project: ProjectFiles, path: Path) -> None:
    with path.open("xb") as file:
        pack(project, file)
