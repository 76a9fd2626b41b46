"""A user namespace that all commands of one sandbox are in, where nobody may give them a user of their own.

The kernel counts a user's processes in each user namespace by itself, so commands that share one share their limit.
"""

from __future__ import annotations

import asyncio
import os
import subprocess

__all__ = ["UserNamespace"]


class UserNamespace:
    """One of one sandbox, made when it is first asked for.

    Args:
        user: Who this process's user is in it, for user and group.
    """

    def __init__(self, user: int) -> None:
        self._user = user
        self._fd: int | None = None
        self._making = asyncio.Lock()

    async def path(self) -> str | None:
        """Say where others of this user open it, until it is closed; None where none can be made like this."""
        async with self._making:
            if self._fd is None:
                self._fd = await asyncio.to_thread(_open, self._user)
            return None if self._fd is None else f"/proc/{os.getpid()}/fd/{self._fd}"

    def close(self) -> None:
        """Let go of it; it lives on with what is in it. May be called twice."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _open(user: int) -> int | None:
    line = ["unshare", "--user", f"--map-user={user}", f"--map-group={user}", "--", "cat"]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    try:
        with subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=nowhere, env={"PATH": os.defpath}) as inside:
            try:
                assert inside.stdin is not None and inside.stdout is not None
                inside.stdin.write(b".")
                inside.stdin.flush()
                if not inside.stdout.read(1):  # once it answers it is in there
                    return None
                return os.open(f"/proc/{inside.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
            finally:
                inside.kill()
    except OSError:
        return None
