"""How often somebody may try keys: an address that sent many wrong ones is not listened to for a while.

It holds for every request that needs a key, since whoever guesses needs no page to do it. Many people may share an
address (a proxy's): keys that were right before go on, so that one who guesses shuts out nobody who is in.
"""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from koda_ray.errors import LimitReached

__all__ = ["Tries"]

MOST = 20
WINDOW_S = 60.0
_ADDRESSES = 10_000
_KEYS = 10_000
_SUBNET = 64


class Tries:
    """Counts wrong keys by address, in one process.

    Args:
        most: How many there may be within the window.
        window_s: How long one counts, in seconds.
        clock: Monotonic seconds.
    """

    def __init__(
        self, *, most: int = MOST, window_s: float = WINDOW_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._window_s = window_s
        self._clock = clock
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._right: OrderedDict[bytes, None] = OrderedDict()

    def check(self, address: str, key: str) -> None:
        """Let somebody try a key.

        Raises:
            LimitReached: LIMIT_REACHED, too many were wrong.
        """
        times = self._wrong.get(_network(address), ())
        counted = [at for at in times if self._clock() - at < self._window_s]
        if len(counted) >= self._most and _digest(key) not in self._right:
            raise LimitReached(
                f"{len(counted)} keys from your address were wrong within {self._window_s:g} s: wait a moment, and "
                "copy the key whole",
                retry_after_s=max(1.0, self._window_s - (self._clock() - counted[-self._most])),
            )

    def was_wrong(self, address: str, key: str) -> None:
        """Count one that no one has."""
        self._right.pop(_digest(key), None)
        times = self._wrong.setdefault(_network(address), deque(maxlen=self._most))
        times.append(self._clock())
        self._wrong.move_to_end(_network(address))
        if len(self._wrong) > _ADDRESSES:
            self._wrong.popitem(last=False)

    def was_right(self, key: str) -> None:
        """Remember one that somebody has."""
        self._right[_digest(key)] = None
        self._right.move_to_end(_digest(key))
        if len(self._right) > _KEYS:
            self._right.popitem(last=False)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _network(address: str) -> str:
    """Return who may have an address: of IPv6, one has a whole network."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    if found.ipv4_mapped is not None:  # a socket for both hears those of IPv4 so
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _SUBNET), strict=False))
