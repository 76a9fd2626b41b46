"""Answers that pages of other origins may read: those that an operator named, and no others (CORS).

Such a page speaks by a key, in ``Authorization``, and by nothing else: ``Access-Control-Allow-Credentials`` is never
said, so no browser lets it read what a cookie brought, and `is_own_page` refuses the cookie before that. What this puts
on an answer is no permission of ours either; who may do what is decided by those inside.

It stands around everything that answers, refusals and bugs among it, for a page that cannot read why it was refused
takes the server for gone. Starlette's own middleware stands inside of what answers bugs, tells a page that is not named
more than it hears elsewhere, and refuses what such a page asks beforehand in words that are no problem document.

Source: the Fetch standard, sections 3.3 (CORS protocol) and 4.9 (CORS-preflight fetch); RFC 9110, section 12.5.5.
"""

from __future__ import annotations

from collections.abc import Collection

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["let_in"]

_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
_TAKEN = (
    "Authorization, Content-Type, Idempotency-Key, If-None-Match, If-Range, Last-Event-ID, Range, "
    "traceparent, tracestate"
)
"""What our routes read of a request's headers and a page may not send unasked."""
_TOLD = (
    "Accept-Ranges, Content-Disposition, Content-Range, Date, ETag, Koda-Left-Out, Location, Retry-After, "
    "WWW-Authenticate"
)
"""What our answers say in headers and a page may not read unasked."""
_REMEMBERED_S = 7200
"""For how long a browser need not ask beforehand again; Chromium remembers no longer."""


def let_in(app: FastAPI, origins: Collection[str]) -> None:
    """Have pages of some origins read what an application answers; where there are none, it stays as it was.

    That is all it answers: what Starlette says of a bug, it says around every middleware that it is given.
    """
    inside = app.build_middleware_stack

    def build() -> ASGIApp:
        return _CrossOrigin(inside(), origins=origins)

    if origins:
        app.build_middleware_stack = build


class _CrossOrigin:
    """ASGI middleware, around all others.

    Args:
        app: What is wrapped.
        origins: Whose pages may read answers, as browsers write them.
    """

    def __init__(self, app: ASGIApp, *, origins: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection; anything but HTTP passes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        named = origin if origin in self._origins else None
        if named is not None and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await _asked_beforehand(named)(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                told = MutableHeaders(scope=message)
                # of what was answered to one page, or to none, no cache may make another page's answer
                told.add_vary_header("Origin")
                if named is not None:
                    told["Access-Control-Allow-Origin"] = named
                    told["Access-Control-Expose-Headers"] = _TOLD
            await send(message)

        await self._app(scope, receive, marked)


def _asked_beforehand(origin: str) -> Response:
    """Say what a page may send: whether it is let in is for the request itself, which brings the key."""
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": _TAKEN,
            "Access-Control-Max-Age": str(_REMEMBERED_S),
            "Vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
        },
    )
