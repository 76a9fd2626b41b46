"""A deadline for answers: whoever does not read one at a least pace gets no more of it, and what it holds is let go.

A download that nobody reads would keep its room (`unpacking`) and what it reads from for as long as its connection
lives. An answer is sent in pieces, since a server takes one whole without a word of whether it is read.

This sees whoever this application sends to. In Ray Serve (2.60) that is a queue without a bound (``MessageQueue`` in
``_private/http_util``), and behind it a generator of Ray's that Serve asks for no backpressure
(``_generator_backpressure_num_objects``): there only Ray's store is waited for (`backlog`), and no client. What Ray
carries is in the processes' own memory up to 100 KB a message (``max_direct_call_object_size``), and above that in its
object store, which has a size and puts the rest on the disk. So pieces are larger than that: a slow reader costs disk
(SECURITY.md has figures).
"""

from __future__ import annotations

from collections.abc import Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from koda_ray.logs import get_logger
from koda_ray.serve.pace import LEAST_BYTES_PER_S, STALLED_S, LeastPace, TooSlow

__all__ = ["ReadingDeadline"]

_PIECE_BYTES = 128 * 1024
_log = get_logger(__name__)


class ReadingDeadline:
    """ASGI middleware.

    Args:
        app: What is wrapped. It is ended with an error where it sends, as where a client hung up.
        unread_s: How long to wait for a client that reads nothing, in seconds.
        least_bytes_per_s: Who reads slower than that is not waited for much longer.
    """

    def __init__(
        self, app: ASGIApp, *, unread_s: float = STALLED_S, least_bytes_per_s: float = LEAST_BYTES_PER_S
    ) -> None:
        self._app = app
        self._unread_s = unread_s
        self._least = least_bytes_per_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection; anything but HTTP passes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        pace, given_up = LeastPace(self._unread_s, least_bytes_per_s=self._least), False

        async def paced(message: Message) -> None:
            nonlocal given_up
            for piece in _pieces(message):
                try:
                    await pace.wait(send(piece))
                except TooSlow:
                    given_up = True
                    raise BrokenPipeError("nobody reads this answer") from None
                pace.came(len(piece.get("body", b"")))

        try:
            await self._app(scope, receive, paced)
        except Exception:
            if not given_up:
                raise
            # never the path: a preview's holds a token
            _log.warning("an answer was not read", method=scope["method"], waited_s=round(pace.waited_s, 1))


def _pieces(message: Message) -> Iterator[Message]:
    """Divide a large part of a body."""
    body, last = message.get("body", b""), not message.get("more_body", False)
    if message["type"] != "http.response.body" or len(body) <= _PIECE_BYTES:
        yield message
        return
    for start in range(0, len(body), _PIECE_BYTES):
        more = not last or start + _PIECE_BYTES < len(body)
        yield {**message, "body": body[start : start + _PIECE_BYTES], "more_body": more}
