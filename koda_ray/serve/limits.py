"""A limit on request bodies, refused by their declared length before a byte of them is read.

A body without a length is counted as it comes. What is over the limit gets a problem document and a closed connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from koda_ray.serve.problem import problem_of, problem_response

__all__ = ["BodyLimit", "BodyTooLarge", "Refusals", "refuse_body"]

_DISCARD_S = 5.0
_READING = 2
_DIGITS = 18


class BodyTooLarge(Exception):
    """The body passed its limit while it was being read: raised into the application to stop it."""


class BodyLimit:
    """ASGI middleware.

    Args:
        app: What is wrapped.
        limit_bytes: The limit for a request's body, in bytes.
    """

    def __init__(self, app: ASGIApp, *, limit_bytes: Callable[[Scope], int]) -> None:
        self._app = app
        self._limit_bytes = limit_bytes
        self._refusals = Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection; anything but HTTP passes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit_bytes(scope)
        declared = Headers(scope=scope).get("content-length", "0")
        if not declared.isdecimal() or len(declared) > _DIGITS or int(declared) > limit:
            refused = _too_large(scope, limit, declared[: 2 * _DIGITS])
            await self._refusals.send(refused, receive, send, discard_bytes=limit)
            return
        seen = 0
        started = False

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > limit:
                    raise BodyTooLarge
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            if seen > limit and not started:
                raise BodyTooLarge  # frameworks turn the first one into a response of their own
            started = True
            await send(message)

        try:
            await self._app(scope, counted, watched)
        except BodyTooLarge:
            if started:
                raise
            refused = _too_large(scope, limit, f"over {limit:,}")
            await self._refusals.send(refused, receive, send, discard_bytes=limit)


def _too_large(scope: Scope, limit: int, seen: str) -> Response:
    return problem_response(
        problem_of(
            413,
            "BODY_TOO_LARGE",
            detail=f"the body has {seen} bytes, and this address takes {limit:,} at most; send less",
            instance=scope["path"],
            context={"limitBytes": limit},
        )
    )


class Refusals:
    """Answers requests whose bodies are not wanted, of which a few are read on at once.

    What is read on takes the processors' time as any body does, most through a proxy of Serve's: if every refused
    upload were read to its limit, a few dozen senders without a key would have all of it.

    Args:
        reading: How many are read on at once; the others are cut off, and may miss the reason.
    """

    def __init__(self, *, reading: int = _READING) -> None:
        self._left = reading

    async def send(self, response: Response, receive: Receive, send: Send, *, discard_bytes: int) -> None:
        """Answer, and close the connection; the arguments are those of `refuse_body`."""
        if not self._left:
            await refuse_body(response, receive, send, discard_bytes=0)
            return
        self._left -= 1
        try:
            await refuse_body(response, receive, send, discard_bytes=discard_bytes)
        finally:
            self._left += 1


async def refuse_body(response: Response, receive: Receive, send: Send, *, discard_bytes: int) -> None:
    """Answer a request whose body is not wanted, and close its connection.

    Args:
        response: The answer, whole.
        receive: ASGI's.
        send: ASGI's.
        discard_bytes: How much of the body to read and forget, so that its sender comes to listen.
    """
    response.headers["Connection"] = "close"
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": bytes(response.body), "more_body": True})
    # most clients listen only once they have sent everything: closing now would cost them the reason. So read on, as
    # much as would have been taken anyway
    with suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_S):
            left = discard_bytes
            while left > 0:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    break
                left -= len(message.get("body", b""))
    await send({"type": "http.response.body", "body": b""})
