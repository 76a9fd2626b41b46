"""Hears from gVisor's kernel what is tried in one container: its own record of system calls, sent to a socket of ours.

Nobody can be asked about a call there, as Linux asks ``denials``; but root may have a sandbox's kernel tell of calls as
they end (``runsc trace``), of that sandbox alone. It writes before the call returns, so what a command tried has
arrived when the command is over. It never waits long for whoever listens: what is not taken is dropped, and counted.

One of a sandbox's owners listens at a time: who holds a lock on a file in its folder. The kernel frees it with its
holder, and the next owner who runs a command takes its place.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
import shutil
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from koda_ray import seccomp
from koda_ray.errors import KodaError
from koda_ray.sandbox.gvisor_points import GREETING, Tried, read_point, trace_config

__all__ = ["GvisorTrace", "can_be_traced"]

_PROGRAM = "runsc"
_RUNTIMES = ("runsc", "gvisor")
_START_TIMEOUT_S = 20.0
_MOST_BYTES = 16 * 1024
_BURST = 1000
_PAUSE_S = 0.05
_LISTENED = 20_000
_KINDS = 200  # who tries more at once is told of as one


class _Running(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def pid(self) -> int: ...


def can_be_traced(runtime: str | None, *, engine: str) -> bool:
    """Whether kernels of containers can be told to tell: gVisor's, of an engine of this machine, to root.

    Args:
        runtime: The containers' (SANDBOX_RUNTIME).
        engine: Its address.
    """
    return (
        (runtime or "").startswith(_RUNTIMES)
        and engine.startswith("unix:")
        and os.geteuid() == 0
        and bool(seccomp.left_to_kernel())
        and shutil.which(_PROGRAM) is not None
    )


class GvisorTrace:
    """What one sandbox's kernel tells.

    Args:
        folder: The sandbox's own, which is not seen from inside.
        look: Looks at its container; None when it is gone.
        private: Places of this machine that nobody inside has any business with.
    """

    def __init__(
        self, folder: Path, *, look: Callable[[], Awaitable[_Running | None]], private: Sequence[str] = ()
    ) -> None:
        self._folder = folder
        self._look = look
        self._private = private
        self._beginning = asyncio.Lock()
        self._lock = -1
        self._connection: socket.socket | None = None
        self._resume: asyncio.TimerHandle | None = None
        self._told: Counter[Tried] = Counter()
        self._dropped = 0
        self._off = False

    async def begin(self) -> None:
        """Listen, where nobody does yet; where that cannot be, nothing is told."""
        if self._connection is not None or self._off:
            return
        async with self._beginning:
            if self._connection is not None or self._off or not self._take_turn():
                return
            try:
                with suppress(KodaError):  # the engine does not answer: it may for the next command
                    self._begun(await self._connect())
            except TimeoutError:
                self._off = True
            finally:
                if self._connection is None:
                    self._leave()

    def told(self) -> Counter[Tried]:
        """Say what was tried since the last time, and how often."""
        self._take(_LISTENED)
        found, self._told = self._told, Counter()
        return found

    def close(self) -> None:
        """Listen no more; may be called twice."""
        self._off = True
        self._leave()

    # inside

    def _begun(self, connection: socket.socket | None) -> None:
        if connection is None:
            self._off = True
        elif self._off:  # closed meanwhile
            connection.close()
        else:
            self._connection, self._dropped = connection, 0
            asyncio.get_running_loop().add_reader(connection, self._hear)

    def _take_turn(self) -> bool:
        try:
            self._lock = os.open(self._folder / "trace.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # another owner listens, or the sandbox goes
            self._leave()
            return False
        return True

    def _leave(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection)
            self._connection.close()
            self._connection = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _connect(self) -> socket.socket | None:
        """Have the kernel connect; None where it does not."""
        container = await self._look()
        root = None if container is None else await asyncio.to_thread(_root_of, container)
        if container is None or root is None:
            return None
        name = f"t-{secrets.token_hex(3)}"
        endpoint, config = self._folder / f"{name}.sock", self._folder / f"{name}.json"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            try:
                listening.bind(str(endpoint))
                listening.listen(1)
                listening.setblocking(False)
                config.write_text(json.dumps(trace_config(str(endpoint))))
                line = (_PROGRAM, "--root", root, "trace", "create", "--force", "--config", str(config), container.id)
                return await _connected(listening, line)
            except OSError:
                return None
            finally:
                for path in (endpoint, config):
                    path.unlink(missing_ok=True)

    def _hear(self) -> None:
        if self._take(_BURST) == _BURST and self._connection is not None:  # others have their turn
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._connection)
            self._resume = loop.call_later(_PAUSE_S, self._listen_again)

    def _listen_again(self) -> None:
        self._resume = None
        if self._connection is not None:
            asyncio.get_running_loop().add_reader(self._connection, self._hear)

    def _take(self, most: int) -> int:
        """Take what has arrived, up to a number of messages; returns how many."""
        taken = 0
        while self._connection is not None and taken < most:
            try:
                message = self._connection.recv(_MOST_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                message = b""
            if not message:  # the sandbox has ended, or another listens
                self._leave()
                break
            taken += 1
            told, dropped = read_point(message, private=self._private)
            if told is not None and (told in self._told or len(self._told) < _KINDS):
                self._told[told] += 1
            if dropped > self._dropped:
                self._told[Tried("dropped", "")] += dropped - self._dropped
                self._dropped = dropped
        return taken


async def _connected(listening: socket.socket, line: Sequence[str]) -> socket.socket | None:
    """Run a program that has a kernel connect, to its end; None where it fails."""
    loop = asyncio.get_running_loop()
    process = await asyncio.create_subprocess_exec(
        *line, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    accepting, ending = asyncio.create_task(loop.sock_accept(listening)), asyncio.create_task(process.wait())
    connection: socket.socket | None = None
    done = False
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            await asyncio.wait({accepting, ending}, return_when=asyncio.FIRST_COMPLETED)
            if accepting.done():
                connection, _ = accepting.result()
                connection.setblocking(False)
                await loop.sock_recv(connection, _MOST_BYTES)
                await loop.sock_sendall(connection, GREETING)
            done = await ending == 0 and connection is not None
    finally:
        accepting.cancel()
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.wait({accepting, ending})
        if not done and connection is not None:
            connection.close()
    return connection if done else None


def _root_of(container: _Running) -> str | None:
    """Find where the runtime keeps what it knows of a container, which the container's kernel was told."""
    try:
        words = Path(f"/proc/{container.pid}/cmdline").read_bytes().decode().split("\0")
    except (OSError, ValueError):
        return None
    if container.id not in words:
        return None  # an engine elsewhere
    roots = [word.removeprefix("--root=") for word in words if word.startswith("--root=")]
    return roots[0] if roots else None
