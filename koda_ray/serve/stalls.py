"""A deadline for request bodies: whoever announces one and does not send it at a least pace is answered 408.

Only time in which we wait for the sender counts. Once the answer has begun, or the body is whole, nobody waits for it
any more. A body that comes, but slowly, takes a place among its user's streams: a thousand of them would else have all
that this server serves at once.

Source: RFC 9110, section 15.5.9 (408 Request Timeout).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from koda_ray.errors import LimitReached
from koda_ray.serve.pace import LEAST_BYTES_PER_S, STALLED_S, LeastPace, TooSlow

__all__ = ["QUICK_S", "BodyDeadline"]

QUICK_S = 5.0
"""After how many seconds of waiting a body is a slow one."""
Joined = Callable[[str], AbstractContextManager[None]]


class BodyDeadline:
    """ASGI middleware.

    Args:
        app: What is wrapped; it answers an ``HTTPException`` that is raised while it reads.
        joined: Takes a place for a slow body of a user's, or raises LimitReached; None where no users are known.
        stalled_s: How long to wait for a body of which nothing comes, in seconds.
        quick_s: How long a body may be waited for without a place, in seconds.
        least_bytes_per_s: What comes slower than that is not waited for much longer.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        joined: Joined | None = None,
        stalled_s: float = STALLED_S,
        quick_s: float = QUICK_S,
        least_bytes_per_s: float = LEAST_BYTES_PER_S,
    ) -> None:
        self._app = app
        self._joined = joined
        self._stalled_s = stalled_s
        self._quick_s = quick_s
        self._least = least_bytes_per_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection; anything but HTTP passes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        pace, joined, user = (
            LeastPace(self._stalled_s, least_bytes_per_s=self._least),
            self._joined,
            scope.get("user"),
        )
        waited_for, is_counted = True, joined is None or user is None
        with ExitStack() as place:

            async def timed() -> Message:
                nonlocal waited_for, is_counted
                while waited_for:
                    quick_s = None if is_counted else max(0.0, self._quick_s - pace.waited_s)
                    try:
                        message = await pace.wait(receive(), at_most_s=quick_s)
                    except TooSlow:
                        if waited_for and pace.is_over:
                            raise _stalled(self._stalled_s, self._least) from None
                        if waited_for and joined is not None and not is_counted:
                            _count(place, joined, str(user))
                            is_counted = True
                    else:
                        pace.came(len(message.get("body", b"")))
                        if waited_for and not message.get("more_body"):
                            over()
                        return message
                return await receive()

            def over() -> None:
                nonlocal waited_for
                waited_for = False
                place.close()

            async def watched(message: Message) -> None:
                over()
                await send(message)

            await self._app(scope, timed, watched)


def _count(place: ExitStack, joined: Joined, user: str) -> None:
    """Take a place; that there is none is raised as what frameworks let pass where they read a body."""
    try:
        place.enter_context(joined(user))
    except LimitReached as error:
        after = error.context.get("retryAfterS")
        headers = {"Connection": "close"}
        if isinstance(after, int | float):
            headers["Retry-After"] = str(math.ceil(after))
        raise HTTPException(429, f"the body comes slowly, and {error.message}", headers=headers) from None


def _stalled(after_s: float, least_bytes_per_s: float) -> HTTPException:
    return HTTPException(
        408,
        f"the body does not come: it may pause for {after_s:g} s in all, and a second more for each "
        f"{least_bytes_per_s:,.0f} bytes that came; send it again, faster",
        headers={"Connection": "close"},
    )
