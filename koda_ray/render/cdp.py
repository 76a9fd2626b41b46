"""The browser's protocol over a pipe: calls that answer with JSON or fail as our errors, and events.

Chromium reads commands from its file descriptor 3 and answers on 4, each message ended by a zero byte. A pipe passes
through bubblewrap where a port could not, nobody else can connect to it, and it ends with the browser. Nothing stands
between us and the browser: a driver process in between would parse and copy each picture once more.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Any, cast

from koda_ray.errors import BrowserCrashed, KodaError, PageError
from koda_ray.hearsay import plain

__all__ = ["NAVIGATED", "BrowserConnection", "Listener", "ProtocolSession", "ProtocolTransport"]

Listener = Callable[[Mapping[str, object]], None]
ProtocolTransport = Callable[[Iterable[bytes]], None]
"""Sends a message to the browser, whose pieces are made as there is room for them."""

NAVIGATED = "the page navigated away or reloaded while it was rendered"
_MAX_MESSAGE_CHARS = 300
_END = b"\0"
# what a page says is not longer, unless to fill our memory; pictures are as large as they are
_MAX_MESSAGE_BYTES = 64 << 20
_PICTURES = frozenset({"HeadlessExperimental.beginFrame", "Page.captureScreenshot"})
_PIECE_BYTES = 3 << 16  # of a body; a multiple of three, so that the pieces' base64 makes up the whole
_NUMBER = re.compile(rb'\{"id":(\d+)')
_THROWN = re.compile(rb'\{"method":"Runtime.exceptionThrown"')


class BrowserConnection:
    """All sessions of one browser.

    Args:
        write: Sends a message to the browser.
    """

    def __init__(self, write: ProtocolTransport) -> None:
        self._write = write
        self._parts: list[bytes] = []
        self._size = 0
        self._pictures: set[int] = set()
        self._next_id = 0
        self._calls: dict[int, tuple[str | None, asyncio.Future[dict[str, Any]]]] = {}
        self._listeners: dict[tuple[str | None, str], list[Listener]] = {}
        self._over: dict[str, str] = {}
        self._error: KodaError | None = None

    @property
    def why_over(self) -> str | None:
        """Why there are no answers any more, or None."""
        return None if self._error is None else self._error.message

    async def send(
        self, method: str, parameters: Mapping[str, object] | None = None, *, session: str | None = None
    ) -> dict[str, Any]:
        """Call a method of the browser, or of a target where ``session`` names one.

        Raises:
            PageError: The page navigated away meanwhile.
            BrowserCrashed: The browser or the target ended, or refused.
            KodaError: What the connection was ended with.
        """
        return await self.post(method, parameters, session=session)

    def post(
        self, method: str, parameters: Mapping[str, object] | None = None, *, session: str | None = None
    ) -> asyncio.Future[dict[str, Any]]:
        """Send a call now; whoever cares awaits its answer."""
        text, answer = self._call(method, parameters or {}, session)
        if text:
            self._write((text.encode("utf-8", "surrogatepass") + _END,))
        return answer

    def post_body(
        self, method: str, parameters: Mapping[str, object], body: bytes | memoryview, *, session: str
    ) -> asyncio.Future[dict[str, Any]]:
        """Send a call whose last parameter is ``body``, in base64: it is encoded as the browser takes it."""
        text, answer = self._call(method, {**parameters, "body": ""}, session)
        if text:
            self._write(_with_body(text, memoryview(body)))
        return answer

    def _call(
        self, method: str, parameters: Mapping[str, object], session: str | None
    ) -> tuple[str, asyncio.Future[dict[str, Any]]]:
        """Return a call as it is sent, nothing once all is over, and its answer; parameters are the last of it."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        why = self._over.get(session) if session is not None else None
        error = copy(self._error) or (BrowserCrashed(why) if why is not None else None)
        if error is not None:
            answer.set_exception(error)
            answer.exception()  # nobody needs to look
            return "", answer
        self._next_id += 1
        message: dict[str, object] = {"id": self._next_id, "method": method}
        if session is not None:
            message["sessionId"] = session
        message["params"] = dict(parameters)
        self._calls[self._next_id] = (session, answer)
        if method in _PICTURES:
            self._pictures.add(self._next_id)
        return json.dumps(message, ensure_ascii=False), answer

    def on(self, event: str, listener: Listener, *, session: str | None = None) -> None:
        """Hear an event of the browser or of a target, until that ends."""
        self._listeners.setdefault((session, event), []).append(listener)

    def receive(self, data: bytes) -> None:
        """Take bytes from the browser."""
        *whole, rest = data.split(_END)
        for part in whole:
            self._keep(part)
            message, size = b"".join(self._parts), self._size
            self._parts.clear()
            self._size = 0
            if size > len(message):
                self._on_endless(message, size)
            else:
                self._on_message(cast("dict[str, Any]", json.loads(message)))
        if rest:
            self._keep(rest)

    def _keep(self, part: bytes) -> None:
        """Keep a part of a message, as far as there is a use for it."""
        self._size += len(part)
        if self._size <= _MAX_MESSAGE_BYTES or not self._parts or self._is_picture(self._parts[0]):
            self._parts.append(part)
        else:
            del self._parts[1:]

    def _is_picture(self, start: bytes) -> bool:
        number = _NUMBER.match(start)
        return number is not None and int(number[1]) in self._pictures

    def _on_endless(self, start: bytes, size: int) -> None:
        """Take a message that was too long to be kept: an answer fails; of events, only an error's matters."""
        said = f"the page said {size >> 20} MiB at once"
        if (number := _NUMBER.match(start)) is not None:
            _, answer = self._calls.pop(int(number[1]), (None, None))
            if answer is not None:
                _fail(answer, PageError(said))
        elif _THROWN.match(start):
            params = {"exceptionDetails": {"text": f"{said}, as an error"}}
            for session, event in list(self._listeners):
                if event == "Runtime.exceptionThrown":
                    self._on_message({"method": event, "sessionId": session, "params": params})

    def end(self, why: str | KodaError) -> None:
        """Fail the calls under way and those to come: the browser has gone, for the first reason that was given."""
        self._error = self._error or (BrowserCrashed(why) if isinstance(why, str) else why)
        calls, self._calls = self._calls, {}
        for _, answer in calls.values():
            _fail(answer, copy(self._error))
        self._listeners.clear()

    def end_session(self, session: str, why: str) -> None:
        """The same for one target: the browser never answers for one that has gone."""
        self._over.setdefault(session, why)
        for number, (owner, answer) in list(self._calls.items()):
            if owner == session:
                del self._calls[number]
                _fail(answer, BrowserCrashed(why))
        for key in [key for key in self._listeners if key[0] == session]:
            del self._listeners[key]

    def forget_session(self, session: str) -> None:
        """Keep nothing of a target that the browser has closed: from then on it answers itself that there is none."""
        self._over.pop(session, None)

    def _on_message(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        if number is None:
            for listener in tuple(self._listeners.get((message.get("sessionId"), message["method"]), ())):
                listener(message.get("params") or {})
            return
        self._pictures.discard(number)
        _, answer = self._calls.pop(number, (None, None))
        if answer is None or answer.done():
            return
        if (error := message.get("error")) is not None:
            _fail(answer, _error(str(error.get("message", error))))
        else:
            answer.set_result(message.get("result") or {})


class ProtocolSession:
    """One target's protocol session.

    Args:
        connection: The browser's.
        session: The session's id.
    """

    def __init__(self, connection: BrowserConnection, session: str) -> None:
        self._connection = connection
        self.id = session

    async def send(self, method: str, parameters: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Call a method. Raises as `BrowserConnection.send`."""
        return await self._connection.send(method, parameters, session=self.id)

    def post(self, method: str, parameters: Mapping[str, object] | None = None) -> asyncio.Future[dict[str, Any]]:
        """Send a call now; its answer may be ignored, also when it is an error."""
        return _ignorable(self._connection.post(method, parameters, session=self.id))

    def post_body(
        self, method: str, parameters: Mapping[str, object], body: bytes | memoryview
    ) -> asyncio.Future[dict[str, Any]]:
        """The same with a body, as `BrowserConnection.post_body`."""
        return _ignorable(self._connection.post_body(method, parameters, body, session=self.id))

    def end(self, why: str) -> None:
        """Fail the calls under way and those to come."""
        self._connection.end_session(self.id, why)

    def forget(self) -> None:
        """Keep nothing of it, once the browser has closed it."""
        self._connection.forget_session(self.id)

    def on(self, event: str, listener: Listener) -> None:
        """Hear an event until the target ends."""
        self._connection.on(event, listener, session=self.id)


def _with_body(text: str, body: memoryview) -> Iterator[bytes]:
    """Yield a call that ends with an empty body, with this one in its place."""
    start, end = text[: -len('"}}')], text[-len('"}}') :]
    yield start.encode("utf-8", "surrogatepass")
    for at in range(0, len(body), _PIECE_BYTES):
        yield base64.b64encode(body[at : at + _PIECE_BYTES])
    yield end.encode() + _END


def _ignorable(answer: asyncio.Future[dict[str, Any]]) -> asyncio.Future[dict[str, Any]]:
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())
    return answer


def _fail(answer: asyncio.Future[dict[str, Any]], error: KodaError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # whoever awaits it still gets it; nobody has to


def _error(message: str) -> KodaError:
    """Say in our terms what the browser says when a call cannot be answered."""
    first = plain((message.strip().splitlines() or [""])[0], _MAX_MESSAGE_CHARS)
    if "context was destroyed" in first or "Cannot find context" in first or "navigated or closed" in first:
        return PageError(NAVIGATED)
    return BrowserCrashed(f"the browser ended or refused: {first or 'no reason given'}")
