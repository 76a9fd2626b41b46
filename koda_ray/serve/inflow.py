"""Bodies that come no faster than they are taken, though Ray Serve would have them as fast as they are sent.

A server reads a connection until it holds 64 KB that nobody has asked for, and then lets the sender wait. Serve (2.60)
asks at once and without end, whatever the application does: its proxy puts what comes into a queue without a bound
(``proxy_asgi_receive``), and each replica empties that into another (``ASGIReceiveProxy``). So what a client has us
hold would be decided by how soon it is refused, and copying it would keep the refusal waiting.

Each of the two queues is held by itself, so either end may be another version's, or another application's. In the proxy
`ReceivedInTurn` asks its server for more once what it gave out is gone: handed on, which is a copy, or forgotten. In a
replica `TakenAsAsked` has Serve fetch from the proxy once the application asks, and, while a body comes, one batch
ahead. So a body that nobody asks for costs a few hundred KB in its proxy (`HELD_BYTES`, two pieces beside it, and what
the server reads), and nothing in a replica. Serve takes the former by the name of a function that the proxy's
environment has (`CALLBACK`); it has no name for the latter, which finds what to hold in the object that it is given.
"""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import HTTP_PROTOCOLS

from koda_ray.logs import get_logger
from koda_ray.serve.connections import ApiConnection

__all__ = ["CALLBACK", "HELD_BYTES", "ReceivedInTurn", "TakenAsAsked", "in_proxies"]

CALLBACK = ("RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH", "koda_ray.serve.inflow.in_proxies")
"""The environment variable that a proxy of Serve's reads as it starts, and what it has to say."""
HELD_BYTES = 256 * 1024
"""How much of a connection's messages may wait in the proxy before its server is asked for more, in bytes."""
_MESSAGE_BYTES = 1024
"""What a message takes beside its payload: bodies may come byte by byte."""
_MARK = "koda.received_in_turn"
_log = get_logger(__name__)


def in_proxies() -> list[Middleware]:
    """Return what Serve's proxies put around themselves; they call this by its name.

    It is called before they make their server: that has `ApiConnection` for its connections.
    """
    HTTP_PROTOCOLS["auto"] = f"{ApiConnection.__module__}:{ApiConnection.__name__}"
    return [Middleware(ReceivedInTurn)]


class ReceivedInTurn:
    """ASGI middleware of a proxy.

    Args:
        app: What is wrapped.
        held_bytes: How much may be given out and be there still when more is asked for.
    """

    def __init__(self, app: ASGIApp, *, held_bytes: int = HELD_BYTES) -> None:
        self._app = app
        self._held_bytes = held_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] in ("http", "websocket"):
            scope["extensions"] = {**scope.get("extensions", {}), _MARK: {}}
            receive = _GivenOut(receive, self._held_bytes).receive
        await self._app(scope, receive, send)


class _Given(dict[str, Any]):
    """A message whose end can be seen. What it is handed on as is a plain one."""

    __slots__ = ("__weakref__",)

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


class _GivenOut:
    """The messages of one connection that are still there.

    The newest is not waited for: whoever took it may keep it in hand until there is another.
    """

    def __init__(self, receive: Receive, most_bytes: int) -> None:
        self._receive = receive
        self._most = most_bytes
        self._bytes = self._newest = 0
        self._loop = asyncio.get_running_loop()
        self._less = asyncio.Event()

    async def receive(self) -> Message:
        """Receive a message, once there is room for it."""
        while self._bytes - self._newest >= self._most:
            self._less.clear()
            await self._less.wait()
        message = _Given(await self._receive())
        payload = message.get("body") or message.get("bytes") or message.get("text") or b""
        self._newest = _MESSAGE_BYTES + sys.getsizeof(payload)
        self._bytes += self._newest
        weakref.finalize(message, self._gone, self._newest).atexit = False
        return message

    def _gone(self, size_bytes: int) -> None:
        """Count one less; it may have ended in another thread, or after the loop."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._count, -size_bytes)

    def _count(self, more_bytes: int) -> None:
        self._bytes += more_bytes
        self._less.set()


class TakenAsAsked:
    """ASGI middleware of a replica, round all others: it has to be called with the very object that Serve gives.

    Args:
        app: What is wrapped.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._told = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection; where Serve gives something else than it used to, as fast as Serve does."""
        fetching = _Fetching.of(receive) if scope["type"] in ("http", "websocket") else None
        if fetching is not None and not self._told and _MARK not in scope.get("extensions", {}):
            self._told = True
            _log.warning(
                "bodies are not held back before this application: Serve's proxies hold what clients send until it is "
                "taken, however much; set this for the process that starts Ray on each node",
                variable="=".join(CALLBACK),
            )
        await self._app(scope, receive if fetching is None else fetching.receive, send)


class _Fetching:
    """Serve's loop that fetches what came (``fetch_until_disconnect``), and the queue that it fills."""

    def __init__(
        self, receive: Receive, queue: asyncio.Queue[Message], fetch: Callable[[object], Awaitable[bytes]]
    ) -> None:
        self._receive = receive
        self._queue = queue
        self._fetch = fetch
        self._wanted = asyncio.Event()

    @classmethod
    def of(cls, receive: Receive) -> _Fetching | None:
        """Stand between that loop and the proxy; None where that is not Serve's."""
        known = cast("Any", receive)
        queue, fetch = getattr(known, "queue", None), getattr(known, "_receive_asgi_messages", None)
        if not isinstance(queue, asyncio.Queue) or not callable(fetch):
            return None
        found = cls(receive, cast("asyncio.Queue[Message]", queue), cast("Callable[[object], Awaitable[bytes]]", fetch))
        known._receive_asgi_messages = found.fetch
        return found

    async def fetch(self, request: object) -> bytes:
        """Fetch what came, once it is wanted: called by that loop, again and again."""
        if not self._queue.empty():  # what was fetched last waits to be taken
            self._wanted.clear()
        await self._wanted.wait()
        return await self._fetch(request)

    async def receive(self) -> Message:
        """Receive a message for the application."""
        if self._queue.empty():
            self._wanted.set()
        message = await self._receive()
        if self._queue.empty() and (message.get("more_body") or message["type"].startswith("websocket.")):
            self._wanted.set()  # the next batch comes while this one is worked on
        return message
