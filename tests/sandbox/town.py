"""Databases with folders and engines of their own or shared ones, and processes that are at work in them."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from koda_ray.config import REPO_ROOT, Settings
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.service import SandboxService
from koda_ray.sandbox.unfinished import clear_unfinished
from koda_ray.sandbox.workshop import Workshop
from koda_ray.state.sql import SqlStore
from tests.sandbox.leftovers import Leftovers

__all__ = ["BusyMaker", "Home", "Town", "until"]


class Home:
    """A database with a SANDBOX_PATH, and Ann who uses both."""

    def __init__(self, store: SqlStore, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self.providers = Providers(settings, store)
        self.ann = Workshop(store, self.providers, user_id="ann")

    async def reap(self) -> list[str]:
        """Clear away as a janitor that has no session would, and nothing that is named."""
        cleared = await clear_unfinished(self.store, self.providers)
        named = [row.id for row in await self.store.own_sandboxes()]
        return cleared + await SandboxService(await self.providers.get()).reap(named)

    async def states(self) -> dict[str, str]:
        return {one.record.id: one.state for one in await self.ann.sandboxes()}

    async def folder(self) -> Path:
        return self.settings.sandbox_path / await self.store.deployment()


class Town:
    """Makes homes, and processes that are at work in them; after the test nothing of it all is left."""

    def __init__(self, folder: Path, given: Mapping[str, str]) -> None:
        self.folder, self._given = folder, given
        self._homes: list[Home] = []
        self._stores: dict[str, SqlStore] = {}
        self._processes: list[subprocess.Popen[str]] = []

    async def home(self, database: str = "one.db", boxes: str = "boxes", **given: str) -> Home:
        if database not in self._stores:
            self._stores[database] = SqlStore(self.folder / database)
            await self._stores[database].open()
        settings = Settings.model_validate({**self._given, "SANDBOX_PATH": self.folder / boxes, **given})
        self._homes.append(Home(self._stores[database], settings))
        return self._homes[-1]

    def maker(self, database: str = "one.db", boxes: str = "boxes", *, lease_s: float = 60, **what: str) -> BusyMaker:
        given = {
            "settings": {**self._given, "SANDBOX_PATH": str(self.folder / boxes)},
            "store": str(self.folder / database), "lease_s": lease_s, **what,
        }  # fmt: skip
        line = [sys.executable, "-m", "tests.sandbox.maker", json.dumps(given)]
        self._processes.append(subprocess.Popen(line, cwd=REPO_ROOT, stdout=subprocess.PIPE, text=True))
        return BusyMaker(self._processes[-1])

    async def close(self) -> list[str]:
        for process in self._processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        for home in self._homes:
            for box in await home.ann.sandboxes():
                if box.state != "elsewhere":
                    await home.ann.terminate(box.record.id)
            for image in await home.ann.images():
                if image.state != "elsewhere":
                    await home.ann.remove_image(image.record.id)
            await home.providers.close()
        for store in self._stores.values():
            await store.close()
        return [
            line for path in {home.settings.sandbox_path for home in self._homes} for line in Leftovers(path).find()
        ]


class BusyMaker:
    """A process that is at making something."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait()

    async def said(self) -> list[str]:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(self._process.stdout.readline), 60)
        return line.split()


async def until(done: Callable[[], Awaitable[object]]) -> None:
    deadline = time.monotonic() + 60
    while not await done():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
