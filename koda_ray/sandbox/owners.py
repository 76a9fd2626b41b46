"""A first process's way to its owners: it dials each socket in their folder, and hands on what is asked there.

Every owner, which is a process of this machine that has connected to the sandbox, listens on a socket of its own. So
several use one sandbox at once, and none takes anything from another by coming or going.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress

from koda_ray.errors import SandboxError
from koda_ray.sandbox.frames import Message, receive_object

__all__ = ["Owners"]

_SOCKET = re.compile(r"a-[0-9a-f]{6}\.sock")
# Source: linux/inotify.h. A new owner's socket gets its name once it can be dialled
_IN_MOVED_TO = 0x80
_NOTICE_BYTES = 4096
_WAITING = 4  # connections to each owner that are there before they are needed
_REDIAL_S = 0.05
_MOST_REDIAL_S = 2.0
_LOOK_S = 0.25

Serve = Callable[[Message, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Owners:
    """All who own a container now.

    Args:
        folder: Where their sockets lie.
        secret: What tells this process from hostile code that dials too.
        serve: Answers one request, and closes its connection.
    """

    def __init__(self, folder: str, *, secret: str, serve: Serve) -> None:
        self._folder = folder
        self._secret = secret.encode()
        self._serve = serve
        self._serving: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()

    async def answer(self) -> None:
        """Answer whoever comes, for as long as this process lives."""
        notices = _notices(self._folder)
        if notices is not None:
            asyncio.get_running_loop().add_reader(notices, self._notice, notices)
        dialling: dict[str, asyncio.Future[list[None]]] = {}
        while True:
            for name in filter(_SOCKET.fullmatch, os.listdir(self._folder)):
                if name not in dialling:
                    lines = [self._dial(os.path.join(self._folder, name)) for _ in range(_WAITING)]
                    dialling[name] = asyncio.gather(*lines)
            for name in [name for name, dialled in dialling.items() if dialled.done()]:
                dialling.pop(name).result()
            await self._pause(_LOOK_S if dialling else _REDIAL_S)

    async def _dial(self, path: str) -> None:
        """Keep one connection waiting at an owner's socket until that is gone."""
        delay_s = _REDIAL_S
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(path)
            except FileNotFoundError:
                return
            except OSError:  # it was killed, and whoever comes next clears its socket away
                await self._pause(delay_s)
                delay_s = min(2 * delay_s, _MOST_REDIAL_S)
                continue
            delay_s = _REDIAL_S
            try:
                writer.write(self._secret)
                request = await receive_object(reader)
            except (EOFError, OSError, SandboxError):
                writer.close()
                await self._pause(_REDIAL_S)
                continue
            serving = asyncio.ensure_future(self._serve(request, reader, writer))
            self._serving.add(serving)
            serving.add_done_callback(self._serving.discard)

    def _notice(self, notices: int) -> None:
        with suppress(BlockingIOError):
            os.read(notices, _NOTICE_BYTES)
        self._moved.set()  # wakes all who wait now
        self._moved.clear()

    async def _pause(self, timeout_s: float) -> None:
        """Wait a while, no longer than until something changes in the folder."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._moved.wait()


def _notices(folder: str) -> int | None:
    """Open what becomes readable when something changes in a folder; None where the kernel tells nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    notices = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if notices < 0 or libc.inotify_add_watch(notices, folder.encode(), _IN_MOVED_TO) < 0:
        return None
    return notices
