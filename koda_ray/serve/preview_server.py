"""The preview's proxy as a server of its own: in the process of `koda serve`, and as one deployment of Serve's.

What it shows is hostile, so it has an origin of its own, which Serve cannot give it: all its applications answer at one
port. So it listens at a port of its own, on whichever node it is, and reaches sandboxes on the others through their
sessions' doors (`koda_ray.sandbox.node_door`). There is one: a page's passing address is known to the process that gave
it out, and to no other.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Generator

import uvicorn
from starlette.types import ASGIApp

from koda_ray.sandbox.preview import MAX_FRAME_BYTES
from koda_ray.serve.connections import PreviewConnection

__all__ = ["PreviewServer"]


class PreviewServer(uvicorn.Server):
    """A server that leaves signals to whoever started it.

    Args:
        app: What it serves (`koda_ray.serve.preview.create_preview_app`).
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=PreviewConnection,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=2,
                ws_max_size=MAX_FRAME_BYTES,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take none."""
        yield

    async def show(self, listening: socket.socket) -> None:
        """Serve until told to end."""
        await self.serve(sockets=[listening])
