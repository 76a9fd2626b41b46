"""Servers inside of processes that have other work: a replica of the API that listens itself, and the preview's.

On a Ray of its own the API has one replica, and that listens at the API's port. A proxy of Serve's before it would cost
each request more of a processor than the answer does: it reads the request, pickles it, sends it by Ray to the replica,
and all of the answer comes back on the same way; and it is a process more, on machines that have few to spare. Nor is
what a client sends or does not read held anywhere then but in its connection. On a cluster, whose nodes come and go,
Serve's proxies are what stays where clients look.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from koda_ray.serve.connections import ApiConnection, BoundConnection

__all__ = ["GRACE_S", "KEEP_ALIVE_S", "ListeningServer", "api_listening"]

KEEP_ALIVE_S = 75
"""How long a connection to the API may wait for its next request, in seconds: longer than those before it wait."""
GRACE_S = 5
"""How long what is under way at the end may take to be answered, in seconds."""
_LOOK_S = 0.01


class ListeningServer(uvicorn.Server):
    """A server that leaves signals to whoever started it.

    Args:
        app: What it serves; its lifespan is its own business.
        http: What its connections are.
        options: More of uvicorn's.
    """

    def __init__(self, app: ASGIApp, http: type[BoundConnection], **options: Any) -> None:
        super().__init__(uvicorn.Config(app, http=http, log_level="warning", access_log=False, **options))

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take none."""
        yield

    async def show(self, listening: socket.socket) -> None:
        """Serve until told to end."""
        await self.serve(sockets=[listening])


@asynccontextmanager
async def api_listening(app: ASGIApp, listening: socket.socket) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve the API from a bound socket; yields what ends when nothing is served any more.

    Args:
        app: The API, as it is once it has started.
        listening: Where it listens; closed at the end.
    """
    server = ListeningServer(
        app, ApiConnection, lifespan="off", timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=GRACE_S
    )
    task = asyncio.create_task(server.show(listening))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(_LOOK_S)
        if task.done():
            task.result()
            raise RuntimeError("the API's server ended as it began to listen")
        yield task
    finally:
        server.should_exit = True
        await asyncio.wait({task})
