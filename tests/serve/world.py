"""A whole server without Ray: real store, storage, HTTP, and sessions whose agents are a script."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from koda_ray.config import Settings
from koda_ray.serve.api import create_app
from koda_ray.serve.auth import Authenticator
from koda_ray.serve.deps import ApiDeps, ClusterEyes
from koda_ray.serve.signing import Signer
from koda_ray.state.records import (
    SessionQuota,
)
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from tests.serve.scripted import ScriptedDirectory


class QuietServer(uvicorn.Server):
    """A server that leaves the test run's signal handlers alone, and ends when it is told to, not at its next look."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._told = asyncio.Event()
        super().__init__(config)

    @property
    def should_exit(self) -> bool:
        return self._told.is_set()

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        if value:
            self._told.set()

    async def main_loop(self) -> None:
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await self._told.wait()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def serving_on(app: ASGIApp, path: Path) -> AsyncGenerator[None]:
    """Serve an application on a Unix socket, as a sandbox's dev server is reached."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        server = QuietServer(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=5))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield
        finally:
            server.should_exit = True
            await task


@asynccontextmanager
async def serving(app: ASGIApp, port: int = 0, *, graceful_s: int = 5) -> AsyncGenerator[str]:
    """Serve an application on loopback; yield its address. What is open at the end is cut off after ``graceful_s``."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_level="warning", lifespan="on", timeout_graceful_shutdown=graceful_s
    )
    server = QuietServer(config)
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(60):
        while not server.started:
            if task.done():
                task.result()
            await asyncio.sleep(0.005)
    bound: socket.socket = server.servers[0].sockets[0]
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        deps = getattr(getattr(app, "state", None), "deps", None)
        if deps is not None:
            deps.draining.set()
        server.should_exit = True
        await task


@dataclass
class World:
    """Everything a test may want to look at."""

    settings: Settings
    store: SqlStore
    storage: Storage
    directory: ScriptedDirectory
    deps: ApiDeps
    app: FastAPI
    url: str = ""


@asynccontextmanager
async def world(
    folder: Path, *, serve: bool = True, eyes: ClusterEyes | None = None, **settings: object
) -> AsyncGenerator[World]:
    """Start a server over a folder."""
    made = Settings.model_validate(
        {
            "STORAGE_PATH": folder / "storage",
            "DATABASE_PATH": folder / "koda.db",
            "KODA_DIRECTOR": "offline",
            "KODA_WEB_PATH": folder / "no-page",
            **settings,
        }
    )
    store = SqlStore.from_settings(made)
    await store.open()
    storage = Storage.from_settings(made)
    quota = SessionQuota(sessions=made.max_sessions_per_user or None)
    directory = ScriptedDirectory(
        store, storage, most_awake=made.user_sessions, most_video_s=made.user_render_s, fork_quota=quota
    )
    deps = ApiDeps(
        settings=made,
        store=store,
        storage=storage,
        directory=directory,
        auth=Authenticator.from_settings(made, store),
        signer=Signer.from_settings(made),
        preview_port=made.preview_port,
        eyes=eyes,
    )
    found = World(made, store, storage, directory, deps, create_app(deps))
    try:
        if serve:
            async with serving(found.app) as url:
                found.url = url
                yield found
        else:
            yield found
    finally:
        await directory.close()
        await store.close()


async def reached(condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
    """Wait until something holds; fail after a while."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)


_AFTER_RAYS = 20_000


def free_port() -> int:
    """Find a port that nothing listens on, of those that neither the kernel nor Ray gives to whoever asks for any.

    So it is free as well when a server that was stopped wants it back. Source: ip(7), ip_local_port_range; Ray's
    ``--min-worker-port`` and ``--max-worker-port``.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    least = _AFTER_RAYS if first > _AFTER_RAYS else first // 2
    while True:
        port = random.randrange(least, first)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


__all__ = [
    "QuietServer",
    "World",
    "free_port",
    "reached",
    "serving",
    "serving_on",
    "world",
]
