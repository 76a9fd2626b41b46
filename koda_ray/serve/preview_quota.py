"""How much of a preview's server one user takes: requests under way, sockets, and changes in a minute.

Whoever has a preview's link may ask for its page as often as they like, and read the answers as slowly; and the page
itself is hostile. A browser has six requests under way and two sockets a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from koda_ray.errors import KodaError, LimitReached
from koda_ray.serve.rates import SAFE_METHODS, Rates

__all__ = ["MAX_CHANGES_PER_MIN", "MAX_REQUESTS", "MAX_SOCKETS", "PreviewQuota"]

MAX_REQUESTS = 64
"""How many requests for previews of one user are under way at once."""
MAX_SOCKETS = 64
"""How many sockets of previews of one user are open at once; each may hold a message that is as long as one may be."""
MAX_CHANGES_PER_MIN = 1_200
"""How many requests for previews of one user may change something in a minute: edits of what is seen among them."""
_AGAIN_S = 1.0


class PreviewQuota:
    """Counts each request and socket for the user whose preview it is, until it is over.

    Args:
        app: The preview's application.
        whose: Whose preview is asked for; None where it is nobody's, which the application says.
        refused: Answers a request that is refused.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        whose: Callable[[HTTPConnection], str | None],
        refused: Callable[[Request, Exception], Awaitable[Response]],
    ) -> None:
        self._app = app
        self._whose = whose
        self._refused = refused
        # a page's own, which takes nothing of what its user may ask of the API
        self._rates = Rates(MAX_CHANGES_PER_MIN, way_out="wait a moment; the page asks too often")
        self._requests: Counter[str] = Counter()
        self._sockets: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one through, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        is_socket = scope["type"] == "websocket"
        user_id = self._whose(HTTPConnection(scope))
        if user_id is None:
            return await self._app(scope, receive, send)
        try:
            if not is_socket and scope["method"] not in SAFE_METHODS:
                self._take(user_id)
            with self._counted(user_id, is_socket=is_socket):
                await self._app(scope, receive, send)
        except _Full as full:
            if is_socket:
                socket = WebSocket(scope, receive, send)
                await socket.close(4000 + full.error.status, full.error.code)
            else:
                answer = await self._refused(Request(scope, receive), full.error)
                await answer(scope, receive, send)

    def _take(self, user_id: str) -> None:
        try:
            self._rates.take(user_id)
        except LimitReached as error:
            raise _Full(error) from None

    @contextmanager
    def _counted(self, user_id: str, *, is_socket: bool) -> Generator[None]:
        under_way, most = (self._sockets, MAX_SOCKETS) if is_socket else (self._requests, MAX_REQUESTS)
        if under_way[user_id] >= most:
            what = (
                "sockets of previews of yours are open" if is_socket else "requests for previews of yours are under way"
            )
            error = LimitReached(
                f"{most} {what}, and no more may be: close pages that show one, or read what was asked for",
                retry_after_s=_AGAIN_S,
                context={"limit": most},
            )
            raise _Full(error)
        under_way[user_id] += 1
        try:
            yield
        finally:
            under_way[user_id] -= 1
            if not under_way[user_id]:
                del under_way[user_id]


class _Full(Exception):
    def __init__(self, error: KodaError) -> None:
        super().__init__(error.message)
        self.error = error
