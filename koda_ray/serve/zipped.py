"""A project as a zip that is sent: made in a file, since nobody keeps it in memory while a slow client reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from fastapi import Request, Response
from fastapi.responses import FileResponse

from koda_ray.cancellation import finish
from koda_ray.sandbox.archives import ProjectFiles, pack, packed_bytes
from koda_ray.sandbox.scratch import scratch
from koda_ray.serve.context import disk_of, user_of

__all__ = ["zipped"]


class _Zip(FileResponse):
    """A file in pieces that Ray keeps in its store, not in a process of ours (`koda_ray.serve.unread`)."""

    chunk_size = 256 * 1024


async def zipped(
    project: ProjectFiles,
    name: str,
    request: Request,
    closing: AsyncExitStack,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an answer with a project's zip; ``closing`` removes the file once it is sent, and gives its room back.

    Raises:
        LimitReached: There was no room for it on the disk, and so TooMuchAtOnce.
    """
    await closing.enter_async_context(disk_of(request).holding(user_of(request), packed_bytes(project)))
    path = closing.enter_context(scratch()) / "packed.zip"
    await finish(asyncio.to_thread(_pack, project, path))
    told = {**(headers or {}), "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return _Zip(path, media_type="application/octet-stream", filename=name, headers=told)


def _pack(project: ProjectFiles, path: Path) -> None:
    with path.open("xb") as file:
        pack(project, file)
