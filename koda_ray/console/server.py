"""The server that the CLI talks to: the one that runs, or one that it starts itself and ends with everything under it.

A server of one's own is a process in a session of its own, marked by an environment variable that whatever it starts
inherits: Ray's daemons leave the process tree, and the mark still finds them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil

from koda_ray.config import SERVER_OWNED
from koda_ray.destinations import not_written
from koda_ray.errors import KodaError
from koda_ray.serve import runfile

__all__ = ["MARK", "OwnServer", "ServerNotStarted", "running_url", "stop_running"]

MARK = "KODA_SERVER_MARK"
START_S = 120.0
STOP_S = 45.0
_LOG_LINES = 15


class ServerNotStarted(KodaError):
    """A server could not be started, or ended by itself."""

    code = "SERVER_FAILED"
    status = 503


def running_url(given: str | None = None) -> str | None:
    """Return the address of the server to talk to: the one named, ``KODA_SERVER``, or the one that runs here."""
    if given or (given := os.environ.get("KODA_SERVER")):
        return given
    found = runfile.read(runfile.runfile_path())
    return found.url if found is not None and _answers(found.url) else None


def stop_running() -> int | None:
    """End the server that runs here, with everything under it; return its process id, None where there is none."""
    found = runfile.read(runfile.runfile_path())
    if found is None:
        return None
    process = psutil.Process(found.pid)
    mark = _mark_of(process)
    _end(process, mark)
    return found.pid


class OwnServer:
    """A server of one's own; its processes carry ``mark`` in their environment.

    Args:
        log: The file that its output goes to.
        keep: Let it run on after us; otherwise it ends when we do, however that happens.
    """

    def __init__(self, log: Path, *, keep: bool = False) -> None:
        self.log = log
        self.url = ""
        self._keep = keep
        self.mark = secrets.token_hex(8)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_began = 0

    def start(self, *, waiting: Callable[[float], None] = lambda _: None, port: int | None = None) -> str:
        """Start it and wait until it answers.

        Args:
            waiting: Called again and again meanwhile, with the seconds so far.
            port: Where it should listen; any free port when None.

        Returns:
            Its address.

        Raises:
            ServerNotStarted: It ended or did not answer in time; the message has its last words.
        """
        path = runfile.runfile_path()
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise not_written(self.log.parent, error, way_out="set KODA_DATA_DIR to another folder") from error
        environment = {**os.environ, MARK: self.mark}
        if port is not None:
            environment["KODA_PORT"] = str(port)
        if not self._keep:
            environment |= {SERVER_OWNED: str(os.getpid())}
            environment.setdefault("KODA_PORT", "0")
            environment.setdefault("KODA_PREVIEW_PORT", "0")
        with self.log.open("ab") as log:
            self._log_began = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "koda_ray.serve"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        began = time.monotonic()
        while True:
            found = runfile.read(path)
            if found is not None and found.pid == self._process.pid and _answers(found.url):
                self.url = found.url
                return found.url
            took = time.monotonic() - began
            if self._process.poll() is not None:
                raise ServerNotStarted(f"the server ended while it was starting:\n{self._last_words()}")
            if took > START_S:
                self.stop()
                raise ServerNotStarted(f"the server did not answer within {START_S:.0f} s:\n{self._last_words()}")
            waiting(took)
            time.sleep(0.05)

    @property
    def pid(self) -> int | None:
        """Its process id."""
        return self._process.pid if self._process else None

    def stop(self) -> None:
        """End it and everything under it; may be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            _end(psutil.Process(process.pid), self.mark)
        except psutil.NoSuchProcess:
            _end_marked(self.mark)
        process.wait()

    def _last_words(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self._log_began)  # what earlier servers said is no reason of this one
            lines = log.read().decode(errors="replace").strip().splitlines()[-_LOG_LINES:]
        return "\n".join(f"  {line}" for line in lines) + f"\nall of it is in {self.log}"


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v1/health", timeout=5.0, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def _end(process: psutil.Process, mark: str | None) -> None:
    """Ask it to end, then make sure that nothing of it is left."""
    tree = [process, *_children(process)]
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGTERM)
    psutil.wait_procs([process], timeout=STOP_S)
    for left in tree:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            left.kill()  # psutil checks that the number is still the same process
    if mark is not None:
        _end_marked(mark)
    psutil.wait_procs(tree, timeout=5)


def _end_marked(mark: str) -> None:
    for process in psutil.process_iter():
        if _mark_of(process) == mark:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.kill()


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK)
    except (psutil.Error, OSError):
        return None


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
