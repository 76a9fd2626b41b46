"""Hears which system calls the filter refuses, refuses them, and counts; nothing else is held up but hard links.

The kernel holds a process that makes such a call until whoever has the filter's listener has answered. Here the answer
is always the refusal, so nothing can change between a look and a decision. A hard link goes on to the kernel, which
refuses those that lead out, whatever was found; it takes a tenth of a millisecond longer. Who makes such calls without
end waits after each hundred, or four hundred links, and costs this program little. Where nobody answers any more,
because this program has ended or let go, the kernel refuses by itself (ENOSYS).
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import socket
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from koda_ray.sandbox.hard_links import leads_out
from koda_ray.sandbox.unreached import FILES, Unreached
from koda_ray.seccomp import call_refusal

__all__ = ["Denials"]

# struct seccomp_notif and seccomp_notif_resp; Source: linux/seccomp.h
_ASKED = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_GO_ON = 1
_BURST, _LINK, _REFUSED = 400, 1, 4
_PAUSE_S = 0.05
_SENT = 1 + len(FILES)


class Denials:
    """The refused calls of one sandbox's processes, and what those with a network of their own did not reach."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._not_reached = 0
        self._open: set[_Listener] = set()
        self._doors: set[socket.socket] = set()

    def listen(self, fd: int, network: Sequence[int] = ()) -> None:
        """Answer a filter's listener until nothing that has the filter is left; the descriptors are closed here.

        Args:
            fd: The listener.
            network: What ``Unreached`` reads, of the network of all that have the filter.
        """
        self._open.add(_Listener(fd, Unreached(network), self._calls, closed=self._forget))

    def door(self) -> socket.socket:
        """Open a way for the listener of a process that is about to be started.

        Returns:
            The end that it sends it on, in a message of one byte; the caller's to close.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._doors.add(ours)
        asyncio.get_running_loop().add_reader(ours, self._take, ours)
        return theirs

    def calls(self) -> dict[str, int]:
        """Say how often each call was refused since the last time."""
        found = dict(self._calls)
        self._calls.clear()
        return found

    def not_reached(self) -> int:
        """Say how often something was not reached, ever."""
        return self._not_reached + sum(listener.network.total() for listener in self._open)

    def close(self) -> None:
        """Listen no more; may be called twice."""
        for listener in tuple(self._open):
            listener.close()
        for door in tuple(self._doors):
            self._shut(door)

    def _take(self, door: socket.socket) -> None:
        with suppress(OSError):
            _, fds, _, _ = socket.recv_fds(door, 1, _SENT, socket.MSG_CMSG_CLOEXEC)
            if fds:
                self.listen(fds[0], fds[1:])
        self._shut(door)

    def _shut(self, door: socket.socket) -> None:
        self._doors.discard(door)
        asyncio.get_running_loop().remove_reader(door)
        door.close()

    def _forget(self, listener: _Listener) -> None:
        self._not_reached += listener.network.total()
        listener.network.close()
        self._open.discard(listener)


class _Listener:
    def __init__(
        self, fd: int, network: Unreached, calls: Counter[str], *, closed: Callable[[_Listener], None]
    ) -> None:
        self.network = network
        self._fd = fd
        self._calls = calls
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._resume: asyncio.TimerHandle | None = None
        self._left = _BURST
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._loop.add_reader(fd, self._answer)

    def close(self) -> None:
        if self._fd < 0:
            return
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._closed(self)

    def _answer(self) -> None:
        # looked at first: to receive where nobody asks would block
        state = dict(self._poll.poll(0)).get(self._fd, 0)
        if state & select.POLLIN:
            self._tell()
        elif state:
            self.close()

    def _tell(self) -> None:
        asked = bytearray(_ASKED.size)
        try:
            fcntl.ioctl(self._fd, _RECEIVE, asked)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):  # who asked was ended meanwhile
                self.close()
            return
        number, pid, _, called, _, _, *args = _ASKED.unpack(asked)
        name, code = call_refusal(called, args)
        if code != 0 or leads_out(pid, name, args):
            self._calls[name] += 1
        with suppress(OSError):
            fcntl.ioctl(self._fd, _SEND, _ANSWER.pack(number, 0, -code, 0 if code else _GO_ON))
        self._left -= _REFUSED if code else _LINK
        if self._left <= 0:
            self._left = _BURST
            self._loop.remove_reader(self._fd)
            self._resume = self._loop.call_later(_PAUSE_S, self._rearm)

    def _rearm(self) -> None:
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._answer)
