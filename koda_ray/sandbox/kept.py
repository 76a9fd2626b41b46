"""What is kept of an output that may have no end: its first and its last bytes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

__all__ = ["Kept", "KeptOutput"]


@dataclass(frozen=True, kw_only=True)
class KeptOutput:
    """What is kept of what a process writes.

    Args:
        head_bytes: How much of the beginning of each output.
        tail_bytes: How much of the end of each output.
        merged: Whether its errors go to the same place as its output.
    """

    head_bytes: int = 0
    tail_bytes: int = 0
    merged: bool = False


class Kept:
    """The beginning and the end of a stream of bytes; what lies between is counted and dropped.

    Args:
        head_bytes: How much of the beginning is kept.
        tail_bytes: How much of the end is kept.
    """

    def __init__(self, *, head_bytes: int, tail_bytes: int) -> None:
        self._head_left = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    @property
    def truncated(self) -> bool:
        """Whether bytes in the middle were left out."""
        return self._dropped > 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._head_left > 0:
            self._head += data[: self._head_left]
            data, self._head_left = data[self._head_left :], max(0, self._head_left - len(data))
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size > self._tail_bytes:
            over = self._tail_size - self._tail_bytes
            first = self._tail.popleft()
            cut = min(over, len(first))
            self._dropped += cut
            self._tail_size -= cut
            if cut < len(first):
                self._tail.appendleft(first[cut:])

    def text(self) -> str:
        """What was kept, as text; a line says how much was left out."""
        head = self._head.decode("utf-8", "replace")
        tail = b"".join(self._tail).decode("utf-8", "replace")
        if not self._dropped:
            return head + tail
        mark = f"[... {self._dropped} bytes of output left out ...]\n"
        return f"{head}\n{mark}{tail}" if head else f"{mark}{tail}"
