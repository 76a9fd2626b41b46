"""A client that hangs up in the middle of a stream, its own or ours, is no error, and leaves no traceback in the log.

FastAPI closes a stream's receiving end before it stops what still sends into it, so a client that goes away during a
burst of events ends the request with `anyio.BrokenResourceError`; one that goes away while its body is read, with
Starlette's `ClientDisconnect`. Whatever else ended it is raised as before.
"""

from __future__ import annotations

from anyio import BrokenResourceError
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["HangUps"]

_HUNG_UP = (BrokenResourceError, ClientDisconnect)


class HangUps:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        try:
            await self._app(scope, receive, send)
        except _HUNG_UP:
            return
        except BaseExceptionGroup as group:
            rest = group.split(_HUNG_UP)[1]
            if rest is not None:
                raise rest from None
