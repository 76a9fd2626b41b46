"""Room on the disk for what is received there, taken before it is received: a body that is spooled is a file.

All that a body may need is taken at once, else nothing of it is read: what holds a part and waits for more would have
others do the same, until none of them could go on. So what says how long it is takes that, and what does not as much as
may be sent there; the rest is given back when it is whole. It is all given back when the request is over, however that
ends: its file is gone by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from koda_ray.errors import KodaError
from koda_ray.serve.limits import Refusals
from koda_ray.serve.problem import error_response
from koda_ray.serve.unpacking import Reservation, Unpacking

__all__ = ["BodyReservation"]


class _NotReserved(Exception):
    """It is more than was reserved: raised into the application to stop it."""


class BodyReservation:
    """ASGI middleware, within those that know whose request it is and how large a body may be.

    Args:
        app: What is wrapped.
        limits: Returns where a request's body is reserved, in this order; none where it does not lie on the disk.
        limit_bytes: The limit for a request's body, in bytes: so much of a refused one is read.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Callable[[Scope], Sequence[Unpacking]],
        limit_bytes: Callable[[Scope], int],
    ) -> None:
        self._app = app
        self._limits = limits
        self._limit_bytes = limit_bytes
        self._refusals = Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection; all but bodies that lie on the disk passes."""
        limits = self._limits(scope) if scope["type"] == "http" and "user" in scope else ()
        size = _needed(Headers(scope=scope), limits, self._limit_bytes(scope)) if limits else 0
        if not size:
            await self._app(scope, receive, send)
            return
        async with AsyncExitStack() as taken:
            try:
                held = [await taken.enter_async_context(limit.holding(scope["user"], size)) for limit in limits]
            except KodaError as error:
                refused = error
            else:
                body = _Body(receive, limits, held, size)
                try:
                    await self._app(scope, body.receive, body.watched(send))
                    return
                except _NotReserved:
                    if body.started or body.refused is None:
                        raise
                refused = body.refused
            answer = error_response(refused, scope["path"])
            await self._refusals.send(answer, receive, send, discard_bytes=self._limit_bytes(scope))


def _needed(headers: Headers, limits: Sequence[Unpacking], limit_bytes: int) -> int:
    """Return how much a body may come to; what does not say takes no more than there could be room for."""
    if "transfer-encoding" in headers:
        return min(limit_bytes, *(limit.most_bytes for limit in limits))
    return int(headers.get("content-length", "0"))


class _Body:
    """One body, and what is reserved for it."""

    def __init__(
        self, receive: Receive, limits: Sequence[Unpacking], held: Sequence[Reservation], size_bytes: int
    ) -> None:
        self._receive = receive
        self._limits = limits
        self._held = held
        self._size = size_bytes
        self._seen = 0
        self.refused: KodaError | None = None
        self.started = False

    async def receive(self) -> Message:
        """Receive a part of it."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._seen += len(message.get("body", b""))
            if self._seen > self._size:
                self._refuse()
            if not message.get("more_body"):
                for held in self._held:
                    await held.keep(self._seen)
        return message

    def _refuse(self) -> None:
        try:
            for limit in self._limits:
                limit.check(self._seen)
        except KodaError as error:
            self.refused = error
            raise _NotReserved from error

    def watched(self, send: Send) -> Send:
        """See whether an answer has begun; frameworks turn what stopped them into one of their own."""

        async def sent(message: Message) -> None:
            if self.refused is not None and not self.started:
                raise _NotReserved
            self.started = True
            await send(message)

        return sent
