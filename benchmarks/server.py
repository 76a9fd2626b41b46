"""A koda server of its own for a benchmark or a test: started in a folder, ended with everything under it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Self

import psutil

from koda_ray.state.sql import SqlStore

__all__ = ["START_S", "Server"]

START_S = 240.0


class Server:
    """``python -m koda_ray.serve`` with its data in ``folder`` and settings from keyword arguments.

    Use it as an async context manager; ``url`` is where it answers.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._runfile = self.data / "server.json"
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self.url = ""

    def environment(self) -> dict[str, str]:
        """The process's environment: this one's, without its settings, and the server's own."""
        return {
            **os.environ,
            "STORAGE_PATH": str(self.data / "storage"),
            "DATABASE_PATH": str(self.data / "koda.db"),
            "SANDBOX_PATH": str(self.data / "sandboxes"),
            "KODA_RUNFILE": str(self._runfile),
            "KODA_PORT": "0",
            "KODA_PREVIEW_PORT": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            **self._settings,
        }

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the server and wait until it answers."""
        self.data.mkdir(parents=True, exist_ok=True)
        self._runfile.unlink(missing_ok=True)
        log = (self.folder / "server.log").open("ab")
        with log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "koda_ray.serve",
                env=self.environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(FileNotFoundError, ValueError):
                self.url = str(json.loads(self._runfile.read_text())["url"])
                return
            if self._process.returncode is not None or time.monotonic() > deadline:
                await self.kill()
                raise RuntimeError(f"the server did not start:\n{self.log()[-4000:]}")
            await asyncio.sleep(0.05)

    def log(self) -> str:
        """What the server wrote."""
        return (self.folder / "server.log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        """The process that was started; 0 while there is none."""
        return 0 if self._process is None else self._process.pid

    async def session_pid(self, session_id: str) -> int:
        """The process that holds a session, from its row."""
        store = SqlStore(self.data / "koda.db")
        await store.open()
        try:
            host = (await store.get_session(session_id)).host or ""
        finally:
            await store.close()
        return int(host.rsplit(":", 1)[1])

    async def kill(self) -> None:
        """SIGKILL the server and everything under it, Ray included, as a power cut would."""
        process, self._process = self._process, None
        if process is None:
            return
        tree: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):  # one that did not start has ended by itself
            tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for victim in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        await process.wait()

    async def stop(self) -> None:
        """End the server and everything under it, politely first."""
        process, self._process = self._process, None
        if process is None:
            return
        tree: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            tree = psutil.Process(process.pid).children(recursive=True)
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), 30)
            except TimeoutError:
                process.kill()
                await process.wait()
        for child in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
