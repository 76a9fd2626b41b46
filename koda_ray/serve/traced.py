"""A span for each request, which whoever asked may have begun: their ``traceparent`` is taken up.

It stands behind the gate: who has no key could else write into any trace whose number they know, and fill whoever takes
traces with spans of refusals.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from koda_ray.serve.openapi import is_public
from koda_ray.tracing import span

__all__ = ["Traced"]

_QUIET = "/-/"


class Traced:
    """ASGI middleware; what machines ask every second, and what is for everybody, is not traced."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection; anything but HTTP passes."""
        if scope["type"] != "http" or scope["path"].startswith(_QUIET) or is_public(scope["path"]):
            await self._app(scope, receive, send)
            return
        method = str(scope["method"])
        with span(method, {"http.request.method": method}, parent=Headers(scope=scope).get("traceparent")) as made:
            if made is None:
                await self._app(scope, receive, send)
                return

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    made.set_attribute("http.response.status_code", message["status"])
                    route = getattr(scope.get("route"), "path", None)  # as declared: addresses have ids in them
                    if isinstance(route, str):
                        made.update_name(f"{method} {route}")
                        made.set_attribute("http.route", route)
                await send(message)

            await self._app(scope, receive, noted)
