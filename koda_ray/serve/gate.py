"""What is asked of a request before anything of it is read: whether it may come at all.

A server without keys belongs to whoever sits at the machine. It listens on loopback only, since a client may claim any
name; and it answers only to names that mean this machine: a page from elsewhere whose name was made to point here (DNS
rebinding) sends its own name, and a page that addresses us directly sends its own origin. Where keys are needed, who
has none is refused before anything of a body is received: a body that never comes would hold a place for nothing. So is
who has as many requests under way as one user may, or changes more in a minute.

The live preview needs none of this: there the address itself is the secret.

Source: RFC 9110, section 7.4 (misdirected requests); the Fetch standard (the Origin header).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from koda_ray.errors import KodaError
from koda_ray.serve.auth import is_loopback
from koda_ray.serve.callers import Callers
from koda_ray.serve.limits import Refusals
from koda_ray.serve.problem import error_response, problem_of, problem_response
from koda_ray.serve.rates import SAFE_METHODS

__all__ = ["Gate"]

_NAMES = 64
"""Of how many names it is remembered whether they mean this machine: a client says the same one each time."""


class Gate:
    """ASGI middleware.

    Args:
        app: What is wrapped.
        callers: Know the keys, and whether there are any.
        public: Says of a path whether it is for everybody. Elsewhere whose key it is becomes ``scope["user"]``.
        limit_bytes: How much of a request's body to read when it is refused, so that its sender listens.
        asked: Counts a user's request for as long as it is under way, or raises LimitReached.
        changes: Counts a user's request that may change something, or raises LimitReached.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        callers: Callers,
        public: Callable[[str], bool],
        limit_bytes: Callable[[Scope], int],
        asked: Callable[[str], AbstractContextManager[None]],
        changes: Callable[[str], None],
    ) -> None:
        self._app = app
        self._callers = callers
        self._public = public
        self._limit_bytes = limit_bytes
        self._asked = asked
        self._changes = changes
        self._refusals = Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection, or say why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        with ExitStack() as under_way:
            try:
                refused = None if _is_ours(headers) else await self._stranger(scope, headers)
                if refused is None and not self._public(scope["path"]):
                    scope["user"] = await self._callers.user(HTTPConnection(scope))
                    under_way.enter_context(self._asked(scope["user"]))
                    if scope["type"] == "http" and scope["method"] not in SAFE_METHODS:
                        self._changes(scope["user"])
            except KodaError as error:
                refused = error_response(error, scope["path"])
            if refused is None:
                await self._app(scope, receive, send)
                return
        if scope["type"] == "http":
            await self._refusals.send(refused, receive, send, discard_bytes=self._limit_bytes(scope))
        elif "websocket.http.response" in scope.get("extensions", {}):
            await refused(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 4000 + refused.status_code})

    async def _stranger(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        if await self._callers.auth.required():
            return None
        host, origin = headers.get("host", ""), headers.get("origin")
        if not _is_here(f"//{host}"):
            return problem_response(
                problem_of(
                    421,
                    "WRONG_HOST",
                    detail=(
                        "this server has no keys and so answers only to this machine's own names, not to "
                        f"{host[:200]!r}: use http://127.0.0.1 or localhost, or set KODA_API_KEYS"
                    ),
                    instance=scope["path"],
                )
            )
        return problem_response(
            problem_of(
                403,
                "WRONG_ORIGIN",
                detail=(
                    f"this server has no keys and takes nothing from pages of {str(origin)[:200]!r}; set KODA_API_KEYS "
                    "to use it from other origins"
                ),
                instance=scope["path"],
            )
        )


def _is_ours(headers: Headers) -> bool:
    origin = headers.get("origin")
    return _is_here(f"//{headers.get('host', '')}") and (origin is None or _is_here(origin))


@lru_cache(maxsize=_NAMES)
def _is_here(address: str) -> bool:
    name = _name(address)
    return is_loopback(name) or name.endswith(".localhost")


def _name(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:  # brackets that do not match
        return ""
