"""Reading server-sent events: bytes as they arrive, in whatever pieces, into whole events.

Source: WHATWG HTML, section 9.2 (server-sent events).
"""

from __future__ import annotations

__all__ = ["SseDecoder"]


class SseDecoder:
    """Turns bytes of a ``text/event-stream`` into (id, event, data), whatever the bytes' boundaries.

    Source: WHATWG HTML, section 9.2.6. Only line feeds and carriage returns end a line: JSON may hold any other
    character that Python's ``splitlines`` would break at.
    """

    def __init__(self) -> None:
        self._left = b""
        self._id = ""
        self.last_id = ""
        """The id to come back with; one that came without an event counts too."""
        self._event = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[tuple[str, str, str]]:
        """Take more bytes; return the events that they complete."""
        buffer = self._left + data
        # a carriage return at the end may be half of a line end
        held = b"\r" if buffer.endswith(b"\r") else b""
        *lines, rest = buffer.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._left = rest + held
        return [event for line in lines if (event := self._line(line.decode("utf-8", "replace"))) is not None]

    def _line(self, line: str) -> tuple[str, str, str] | None:
        if not line:
            self.last_id = self._id
            event = (self._id, self._event or "message", "\n".join(self._data)) if self._data else None
            self._event, self._data = "", []
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id":
                self._id = value
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case _:
                pass  # a comment, a retry hint, or something newer than this client
        return None
