"""Answers held back while Ray Serve has not taken what was sent of them before.

A replica of Serve (2.60) puts what an application sends into a queue without a bound, runs the application in a thread
of its own, and takes the whole queue at once: a file that is read faster than Ray's store takes it would lie in the
replica's memory whole, twice. So after every few megabytes of an answer this waits until the queue is empty. Serve
gives an application no name for that queue; it is found in the function that fills it, and where there is none, nothing
is held back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from inspect import getclosurevars, isfunction
from typing import Any, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["SENT_BYTES", "HeldBack"]

SENT_BYTES = 4 << 20
"""How much of an answer is sent before it is waited for, in bytes."""
_LOOK_S = 0.002


class HeldBack:
    """ASGI middleware, round all others: it has to be called with the very function that Serve gives.

    Args:
        app: What is wrapped.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection; anything but HTTP passes."""
        queue = _Queue.of(send) if scope["type"] == "http" else None
        if queue is None:
            await self._app(scope, receive, send)
            return
        waiting = 0

        async def held(message: Message) -> None:
            nonlocal waiting
            await send(message)
            waiting += len(message.get("body", b""))
            if waiting >= SENT_BYTES:
                await queue.emptied()
                waiting = 0

        await self._app(scope, receive, held)


class _Queue:
    """What Serve takes messages from, in the event loop that it does so in."""

    def __init__(self, messages: Sized, loop: asyncio.AbstractEventLoop) -> None:
        self._messages = messages
        self._loop = loop

    @classmethod
    def of(cls, send: Send) -> _Queue | None:
        """Find it in the function that Serve gives for sending; None where that is not Serve's."""
        if not isfunction(send):
            return None
        known = cast("dict[str, Any]", getclosurevars(send).nonlocals)
        messages = getattr(known.get("result_queue"), "_message_queue", None)
        loop = known.get("system_event_loop", asyncio.get_running_loop())
        if not isinstance(messages, Sized) or not isinstance(loop, asyncio.AbstractEventLoop):
            return None
        return cls(messages, loop)

    async def emptied(self) -> None:
        """Wait until all that was sent was taken: what is still on its way to the queue comes before this looks."""
        looking = self._look()
        if self._loop is asyncio.get_running_loop():
            await looking
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(looking, self._loop))

    async def _look(self) -> None:
        while self._messages:  # noqa: ASYNC110 - Serve has an event for what comes, and none for what goes
            await asyncio.sleep(_LOOK_S)
