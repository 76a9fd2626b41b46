"""Counts what a network namespace's programs tried to reach and could not: the kernel keeps that for each namespace.

Counted are packets without a route, which is how every address but its own looks from inside, and datagrams for a port
of its own loopback that nobody has, which is what looking up a name comes to. A connection to that loopback where
nobody listens is not: whoever waits for a server of its own makes those too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

__all__ = ["FILES", "Unreached", "unreached"]

FILES = ("/proc/self/net/snmp", "/proc/self/net/snmp6")
_COUNTED = frozenset({"IpOutNoRoutes", "UdpNoPorts", "Ip6OutNoRoutes", "Udp6NoPorts"})
_MOST_BYTES = 64 * 1024


class Unreached:
    """The count of another process's namespace, which can be read until it is closed, also when all in it have ended.

    Args:
        fds: Its ``FILES``, as it has opened them; closed here.
    """

    def __init__(self, fds: Sequence[int]) -> None:
        self._fds = list(fds)

    def total(self) -> int:
        """Say how often something was not reached, ever."""
        return sum(_count(os.pread(fd, _MOST_BYTES, 0).decode()) for fd in self._fds)

    def close(self) -> None:
        """Look no more; may be called twice."""
        while self._fds:
            os.close(self._fds.pop())


def unreached() -> int:
    """The count of this process's own namespace, ever; 0 where its kernel keeps none."""
    total = 0
    for name in FILES:
        with suppress(OSError), open(name) as file:
            total += _count(file.read())
    return total


def _count(text: str) -> int:
    """Read one of the two files: a line of names over a line of numbers, or a name and a number on each line."""
    total = 0
    lines = [line.split() for line in text.splitlines()]
    for above, line in zip([[], *lines], lines, strict=False):
        if len(line) == 2 and line[0] in _COUNTED:
            total += int(line[1])
        elif above[:1] == line[:1] and line[0].endswith(":"):
            group = line[0].removesuffix(":")
            pairs = zip(above[1:], line[1:], strict=False)
            total += sum(int(value) for name, value in pairs if group + name in _COUNTED)
    return total
