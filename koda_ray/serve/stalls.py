"""A deadline for request bodies: whoever announces one and sends nothing of it is answered 408 after a while.

Each part that comes begins the deadline anew, so a slow upload is none that stalls. Once the answer has begun, or the
body is whole, nobody waits for it any more.

Source: RFC 9110, section 15.5.9 (408 Request Timeout).
"""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["STALLED_S", "BodyDeadline"]

STALLED_S = 60.0
"""How long nothing of a body may come, in seconds."""


class BodyDeadline:
    """ASGI middleware.

    Args:
        app: What is wrapped; it answers an ``HTTPException`` that is raised while it reads.
        stalled_s: How long to wait for the next part of a body, in seconds.
    """

    def __init__(self, app: ASGIApp, *, stalled_s: float = STALLED_S) -> None:
        self._app = app
        self._stalled_s = stalled_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection; anything but HTTP passes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        waited_for = True

        async def timed() -> Message:
            nonlocal waited_for
            while waited_for:
                try:
                    async with asyncio.timeout(self._stalled_s):
                        message = await receive()
                except TimeoutError:
                    if waited_for:
                        raise _stalled(self._stalled_s) from None
                else:
                    waited_for = waited_for and bool(message.get("more_body"))
                    return message
            return await receive()

        async def watched(message: Message) -> None:
            nonlocal waited_for
            waited_for = False
            await send(message)

        await self._app(scope, timed, watched)


def _stalled(after_s: float) -> HTTPException:
    return HTTPException(
        408,
        f"nothing more of the body came for {after_s:g} s: send it again, without a pause as long",
        headers={"Connection": "close"},
    )
