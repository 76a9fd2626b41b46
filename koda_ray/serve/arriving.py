"""Room on the disk for what is received there, taken before it is received: a body that is spooled is a file.

What says how long it is takes that at once, else it is refused before a byte is read. What does not takes more as it
comes, in steps. It is given back when the request is over, however that ends: its file is gone by then.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from koda_ray.errors import KodaError
from koda_ray.serve.limits import Refusals
from koda_ray.serve.problem import error_response
from koda_ray.serve.unpacking import Unpacking

__all__ = ["BodyRoom"]

_FIRST_BYTES = 1 << 20


class _NoRoom(Exception):
    """There is no more room: raised into the application to stop it."""


class BodyRoom:
    """ASGI middleware, within those that know whose request it is and how large a body may be.

    Args:
        app: What is wrapped.
        room: Returns what counts the disk.
        limit_bytes: The limit for a body by its path, in bytes: so much of a refused one is read.
        spools: Says of a path whether bodies lie on the disk there.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        room: Callable[[], Unpacking],
        limit_bytes: Callable[[str], int],
        spools: Callable[[str], bool],
    ) -> None:
        self._app = app
        self._room = room
        self._limit_bytes = limit_bytes
        self._spools = spools
        self._refusals = Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection; all but bodies that lie on the disk passes."""
        if scope["type"] != "http" or "user" not in scope or not self._spools(scope["path"]):
            await self._app(scope, receive, send)
            return
        async with AsyncExitStack() as held:
            body = _Body(receive, held, self._room(), str(scope["user"]))
            try:
                await body.take(int(Headers(scope=scope).get("content-length", "0")))
                await self._app(scope, body.receive, body.watched(send))
                return
            except _NoRoom:
                if body.started or body.refused is None:
                    raise
            refused = error_response(body.refused, scope["path"])
            await self._refusals.send(refused, receive, send, discard_bytes=self._limit_bytes(scope["path"]))


class _Body:
    """One body, and the room that is taken for it."""

    def __init__(self, receive: Receive, held: AsyncExitStack, room: Unpacking, user_id: str) -> None:
        self._receive = receive
        self._held = held
        self._room = room
        self._user_id = user_id
        self._taken = self._seen = 0
        self.refused: KodaError | None = None
        self.started = False

    async def take(self, size_bytes: int) -> None:
        """Take so much more; raises _NoRoom."""
        if size_bytes:
            try:
                await self._held.enter_async_context(self._room.holding(self._user_id, size_bytes))
            except KodaError as error:
                self.refused = error
                raise _NoRoom from error
            self._taken += size_bytes

    async def receive(self) -> Message:
        """Receive a part of it, once there is room."""
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if (more := self._seen - self._taken) > 0:
            step = min(max(more, self._taken, _FIRST_BYTES), self._room.most_bytes - self._taken)
            await self.take(step if step >= more else self._seen)  # more than one user may have is refused as that
        return message

    def watched(self, send: Send) -> Send:
        """See whether an answer has begun; frameworks turn what stopped them into one of their own."""

        async def sent(message: Message) -> None:
            if self.refused is not None and not self.started:
                raise _NoRoom
            self.started = True
            await send(message)

        return sent
