"""Connections that wait for their client: how many there may be, for how long, and how much of a request they hold.

uvicorn (0.54) has a deadline between two requests and no other. Who connects and says nothing, or sends a request's
head byte by byte, keeps a file descriptor for ever; once there are no more of these, nobody is let in. Nor is there a
bound for a head's length, for what follows a chunked body, and for the requests that are sent before the first is
answered: all of it is kept, before anybody has seen a key. uvicorn's ``limit_concurrency`` refuses whoever comes last,
and that is as a rule not who holds the places.

So a connection *waits* while it is its client's turn: to send a head or a body, or to read what was written. Where
there are as many as may be, the one that has waited longest goes for the one that comes, as nginx has it for idle ones;
only where none waits the newcomer is told that there is no room. What comes of a body begins the wait anew. A head that
is too long, in time or in bytes, is refused.

Servers of ours are given their class (`ApiConnection`, `PreviewConnection`). Serve's proxies make theirs themselves,
and take what uvicorn has under the name "auto" (`inflow.in_proxies` puts `ApiConnection` there).

Source: nginx, ``worker_connections`` and ``client_header_timeout``; RFC 6585 (431), RFC 9110, section 15.5.9 (408).
"""

from __future__ import annotations

import asyncio
import resource
from collections import OrderedDict
from typing import Any, ClassVar, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

__all__ = [
    "HEAD_BYTES",
    "MOST_CONNECTIONS",
    "MOST_HEADERS",
    "ApiConnection",
    "BoundConnection",
    "PreviewConnection",
    "within_open_files",
]

MOST_CONNECTIONS = 4096
"""How many connections a server has at most: more than all that a replica answers at once, and what follows events."""
HEAD_BYTES = 32 * 1024
"""How long a head may be, and whatever else is no body."""
MOST_HEADERS = 128
_MOST_AHEAD = 16
"""How many requests of a connection may wait for the answer to the first."""
_HEAD_S = 30.0


def within_open_files(connections: int) -> int:
    """Return how many of so many connections there may be: half of the files that the process may open at most."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if soft == resource.RLIM_INFINITY else min(connections, soft // 2)


class BoundConnection(HttpToolsProtocol):
    """A connection of a server; each class derived from it has places of its own.

    Attributes:
        most_connections: How many a server may have; half of what the process may have open, where that is less.
        head_s: How long a head may take, from the first byte or, of the first head, from when the client connected, in
            seconds.
    """

    most_connections: ClassVar[int] = MOST_CONNECTIONS
    head_s: ClassVar[float] = _HEAD_S
    _waiting: ClassVar[OrderedDict[BoundConnection, None]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._waiting = OrderedDict()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._in_head = self._came_through = self._is_too_much = False
        self._unheard_bytes = 0
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Let a client in, in place of whoever has waited longest where there is no other."""
        super().connection_made(transport)
        if len(self.connections) > within_open_files(self.most_connections):
            if self._waiting:
                self._waiting.popitem(last=False)[0].transport.abort()
            else:
                self.limit_concurrency = 0  # what it asks is answered with 503
        self._wait()
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        super().connection_lost(exc)
        self._go_on()
        self._head_is_here()

    def data_received(self, data: bytes) -> None:
        """Read what came, unless it is too much of what is no body."""
        self._came_through = False
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        self._unheard_bytes = 0 if self._came_through else self._unheard_bytes + len(data)
        if self._unheard_bytes > HEAD_BYTES:
            self._refuse(431, "the request's head is too long")
        elif not self._is_answering:
            self._expect_head()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to who knows WebSockets; it is counted as before."""
        if self.limit_concurrency == 0:
            self._refuse(503, "there are too many connections; come again")
            return
        self._go_on()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with a request."""
        if self._is_too_much:
            self._refuse(431, "the request has too many headers, or too many are sent before an answer")
        else:
            super().send_400_response(msg)

    def on_message_begin(self) -> None:
        """Begin with a request."""
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or one of the fields that follow a chunked body."""
        if len(self.headers) >= MOST_HEADERS:
            self._give_up()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self._in_head, self._came_through = False, True
        if len(self.pipeline) >= _MOST_AHEAD:
            self._give_up()
        self._head_is_here()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._came_through = True
        super().on_body(body)
        if self._is_answering and not self.flow.write_paused:
            self._go_on()
            if not self.flow.read_paused:
                self._wait()

    def on_message_complete(self) -> None:
        """End a request."""
        self._came_through = True
        super().on_message_complete()
        if self._is_answering and not self.flow.write_paused:
            self._go_on()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is here."""
        super().on_response_complete()
        if not self._is_answering:
            self._wait()
            if self._in_head and not self.transport.is_closing():
                self._expect_head()

    def pause_writing(self) -> None:
        """Wait until the client has read."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Write on."""
        super().resume_writing()
        if self._is_answering and not self.cycle.more_body:
            self._go_on()

    @property
    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        """Have it be the client's turn; since when it was is kept."""
        self._waiting[self] = None

    def _go_on(self) -> None:
        self._waiting.pop(self, None)

    def _expect_head(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.head_s, self._too_late)

    def _too_late(self) -> None:
        if self._in_head:
            self._refuse(408, "the request's head did not come")
        else:  # browsers connect ahead, and may take an answer for that of what they ask next
            self.transport.abort()

    def _head_is_here(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._is_too_much = True
        raise ValueError("a client sends too much at once")  # its parser stops, and `send_400_response` is called

    def _refuse(self, status: int, why: str) -> None:
        """End the connection, and say why where no answer is under way."""
        self._head_is_here()
        if self._is_answering:
            self.transport.abort()
            return
        body = why.encode()
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


class PreviewConnection(BoundConnection):
    """A connection to the preview's server."""


class ApiConnection(BoundConnection):
    """A connection to the API: to a replica that listens itself, or to one of Serve's proxies."""
