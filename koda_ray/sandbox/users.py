"""Which user the processes of a sandbox on this machine are."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

__all__ = ["sandbox_user"]

_FIRST_USER = 1_700_000_000
_USERS = 100_000_000


def sandbox_user(sandbox_id: str) -> int | None:
    """Choose the user id that a sandbox's processes drop to: one for each sandbox, out of the way of real users.

    Returns:
        The id, or None when this process is not root, or root of a namespace that has no other ids.
    """
    if os.geteuid() != 0:
        return None
    spread = zlib.crc32(sandbox_id.encode())
    first, count = _mapped_users()
    if first <= _FIRST_USER and first + count >= _FIRST_USER + _USERS:
        return _FIRST_USER + spread % _USERS
    half = count // 2  # a container's own namespace: its upper half, above the users that its image knows
    return first + half + spread % half if half >= 1000 else None


def _mapped_users() -> tuple[int, int]:
    """The largest range of user ids that this namespace has: its first, and how many."""
    rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return max(((int(row[0]), int(row[2])) for row in rows), key=lambda row: row[1])
