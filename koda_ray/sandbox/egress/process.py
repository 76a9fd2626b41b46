"""The proxy of one sandbox as a process of its own, seen from its owner.

What hostile code sends is read by that process alone: it has an empty environment, no more rights than the
sandbox, no secret and no file of this program open but one socket. It ends when its owner lets go of it, also by
being killed, since then its standard input is at an end; and with it the way out is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from koda_ray.errors import SandboxError
from koda_ray.own_process import own_environment
from koda_ray.sandbox.egress.audit import Audit, EgressEvent
from koda_ray.sandbox.egress.budget import Way
from koda_ray.sandbox.egress.rules import Egress

__all__ = ["PROGRAM", "EgressProcess", "EgressSocket"]

PROGRAM = "koda_ray.sandbox.egress"
"""The module that it runs: what to look for among the words of a process that may be one."""

_BACKLOG = 1024
_CLOSE_TIMEOUT_S = 2.0
_LAST_LINES = 20
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


@dataclass(frozen=True, kw_only=True)
class EgressSocket:
    """Where a proxy listens.

    Args:
        path: Its file.
        owner: The user id that may connect to it, and that the proxy runs as; this process's own when None.
        mode: Of the file, where others than the owner connect and its folder keeps out everybody else.
    """

    path: str
    owner: int | None = None
    mode: int = 0o600

    def listen(self) -> socket.socket:
        """Listen there in place of what lies there; it gets its name last: one that is there and refuses is dead.

        Raises:
            SandboxError: PROVIDER_ERROR, it could not be made.
        """
        unnamed = f"{os.path.splitext(self.path)[0]}.new"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with suppress(FileNotFoundError):
                os.unlink(unnamed)
            listener.bind(unnamed)
            os.chmod(unnamed, self.mode)
            if self.owner is not None:
                os.chown(unnamed, self.owner, self.owner)
            listener.listen(_BACKLOG)
            os.rename(unnamed, self.path)
        except OSError as error:
            listener.close()
            raise SandboxError(
                f"the egress proxy's socket {self.path} could not be made: {error}; see that SANDBOX_PATH is short, on "
                "a disk with room, and this user's to write"
            ) from error
        return listener


class EgressProcess:
    """A proxy that runs; made by ``start``.

    Attributes:
        socket_path: Where it listens: what a provider mounts into its sandbox.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        socket_path: str,
        audit: Audit,
        last_lines: deque[str],
        *,
        owns_socket: bool,
    ) -> None:
        self.socket_path = socket_path
        self._process = process
        self._owns_socket = owns_socket
        self._audit = audit
        self._last_lines = last_lines
        self._listening = asyncio.create_task(self._listen(), name=f"egress-audit-{process.pid}")

    @classmethod
    async def start(
        cls,
        at: EgressSocket,
        *,
        egress: Egress,
        audit: Audit,
        used: Mapping[Way, int] | None = None,
        launch: Callable[[Sequence[str]], Sequence[str]] = list,
        listener: socket.socket | None = None,
    ) -> EgressProcess:
        """Start a proxy; connections that come before it is up wait for it.

        Args:
            at: Where it shall listen; what lies there from an earlier proxy is replaced.
            egress: What may be reached.
            audit: Hears of each decision, in this process's event loop.
            used: What proxies before it have let through of its limits.
            launch: Wraps its command line, for instance to count it to the sandbox's control group.
            listener: What listens there already, and stays the caller's: those who connect while no proxy runs wait
                for the next one. Without it they are refused.

        Raises:
            SandboxError: PROVIDER_ERROR, the socket or the process could not be made.
        """
        listening = listener or at.listen()
        given = {
            "fd": listening.fileno(),
            "parent": os.getpid(),
            "user": at.owner,
            "hosts": egress.rules.hosts,
            "denied": [str(network) for network in egress.rules.denied],
            "limits": asdict(egress.limits),
            "used": dict(used or {}),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *launch([sys.executable, "-P", "-s", "-m", PROGRAM]),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=(listening.fileno(),),
                cwd="/",
                env=own_environment(_ENVIRONMENT),
            )
        except OSError as error:
            raise SandboxError(
                f"the egress proxy could not be started: {error}; free memory or processes of this machine, and try "
                "again. Until then the sandbox has no network"
            ) from error
        finally:
            if listener is None:
                listening.close()
        assert process.stdin is not None
        # far less than a pipe holds; nobody at its other end means that it ended at once, and its last lines say why
        process.stdin.write(json.dumps(given).encode() + b"\n")
        return cls(process, at.path, audit, deque(maxlen=_LAST_LINES), owns_socket=listener is None)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it is there; when it is not, nothing gets out."""
        return self._process.returncode is None

    @property
    def last_lines(self) -> str:
        """What it said that is no event: why it ended, if it did by itself."""
        return "\n".join(self._last_lines)

    async def ended(self) -> None:
        """Wait until it is not there any more."""
        await self._process.wait()

    async def close(self) -> None:
        """End it, with all connections, and remove its socket where nobody else has that; may be called twice."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        with suppress(OSError):
            await self._process.stdin.wait_closed()
        if self._owns_socket:
            with suppress(FileNotFoundError):
                os.unlink(self.socket_path)
        await self._listening

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:  # longer than any of ours
                continue
            if not line:
                return
            try:
                event = EgressEvent.from_line(line)
            except ValueError:
                self._last_lines.append(line.decode("utf-8", "replace").rstrip())
            else:
                self._audit(event)
