"""The preview's proxy as a server of its own: in the process of `koda serve`, and as one deployment of Serve's.

What it shows is hostile, so it has an origin of its own, which Serve cannot give it: all its applications answer at one
port. So it listens at a port of its own, on whichever node it is, and reaches sandboxes on the others through their
sessions' doors (`koda_ray.sandbox.node_door`). There is one: a page's passing address is known to the process that gave
it out, and to no other.
"""

from __future__ import annotations

from starlette.types import ASGIApp

from koda_ray.sandbox.preview import MAX_FRAME_BYTES
from koda_ray.serve.connections import PreviewConnection
from koda_ray.serve.listening import ListeningServer

__all__ = ["PreviewServer"]


class PreviewServer(ListeningServer):
    """The server of live previews.

    Args:
        app: What it serves (`koda_ray.serve.preview.create_preview_app`).
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, PreviewConnection, timeout_graceful_shutdown=2, ws_max_size=MAX_FRAME_BYTES)
