"""A Redis server for tests, as Debian's package has it, started as `cluster/kubernetes.yaml` starts it.

It keeps what it has in a folder that goes with it, so that it can be killed and be there again.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.starting import wait_for

__all__ = ["PASSWORD", "PORT", "Redis", "serve", "why_missing"]

PORT = 6379
PASSWORD = "a-password-of-tests"


def why_missing() -> str | None:
    """Return why no server can be started; None where one can."""
    return None if shutil.which("redis-server") else "redis-server not there (Debian package: redis-server)"


class Redis:
    """A server that runs, and asks for `PASSWORD`.

    Args:
        home: Where it keeps what it has.
        address: Where it listens, at `PORT`.
    """

    def __init__(self, home: Path, address: str) -> None:
        self._home = home
        self._address = address
        self._server = self._launch()

    def _launch(self) -> subprocess.Popen[bytes]:
        options = ["--dir", str(self._home), "--appendonly", "yes", "--requirepass", PASSWORD]
        with (self._home / "log").open("ab") as log:
            return subprocess.Popen(
                ["redis-server", *options, "--bind", self._address, "--port", str(PORT)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def start(self) -> None:
        """Start it again; what it had written is there."""
        self._server = self._launch()
        self.wait()

    def crash(self) -> None:
        """Kill it at once."""
        self._server.kill()
        self._server.wait()

    def wait(self) -> None:
        """Wait until it has read what it had, and answers."""
        wait_for(
            self._server,
            lambda: b"+PONG" in self._asked(f"AUTH {PASSWORD}\r\nPING\r\n"),
            log=self._home / "log",
        )

    def keys(self) -> int:
        """Count what it has."""
        said = self._asked(f"AUTH {PASSWORD}\r\nDBSIZE\r\n").decode()
        return int(said.partition(":")[2].split()[0])

    def _asked(self, commands: str) -> bytes:
        """Return what it says to inline commands. Source: Redis' protocol, RESP."""
        try:
            with socket.create_connection((self._address, PORT), timeout=5) as asking:
                asking.sendall(f"{commands}QUIT\r\n".encode())
                return b"".join(iter(lambda: asking.recv(4096), b""))
        except OSError:
            return b""


@contextmanager
def serve(address: str = "127.0.0.1") -> Generator[Redis]:
    """Start a server, and end it with everything that it has.

    Args:
        address: Where it listens.
    """
    with tempfile.TemporaryDirectory(prefix="redis-", ignore_cleanup_errors=True) as folder:
        server = Redis(Path(folder), address)
        try:
            server.wait()
            yield server
        finally:
            server.crash()
