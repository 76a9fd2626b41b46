"""Which ports the programs of a network namespace offer to everybody: those that listen on no address in particular.

In a sandbox that is its own loopback all the same, so nobody else ever comes.
"""

from __future__ import annotations

from contextlib import suppress

__all__ = ["offered"]

_FILES = ("tcp", "tcp6")
_LISTENS = "0A"
_MOST_BYTES = 64 * 1024  # the kernel names those that listen first


def offered(folder: str = "/proc/self/net") -> frozenset[int]:
    """Name the ports.

    Args:
        folder: A process's, whose network is meant.
    """
    found: set[int] = set()
    for name in _FILES:
        with suppress(OSError), open(f"{folder}/{name}") as file:
            found.update(_ports(file.read(_MOST_BYTES)))
    return frozenset(found)


def _ports(text: str) -> set[int]:
    found: set[int] = set()
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) > 3 and words[3] == _LISTENS:
            address, _, port = words[1].partition(":")
            if not address.strip("0"):
                found.add(int(port, 16))
    return found
