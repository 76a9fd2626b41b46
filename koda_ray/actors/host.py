"""Sessions and the janitor as Ray actors: detached, named, restarted by Ray, and nothing else.

The classes inside are plain and know nothing of Ray. An actor's ``__init__`` only starts a task; every method awaits
it, so a slow restore never blocks Ray's creation of the actor, and a restarted actor takes its work up before anybody
calls. Imports are late, because a session actor's memory is mostly imports.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import ray
from pydantic import JsonValue
from ray.actor import exit_actor

from koda_ray.config import Settings
from koda_ray.errors import Fenced

if TYPE_CHECKING:
    from koda_ray.actors.session import Session
    from koda_ray.sandbox.base import PreviewEndpoint
    from koda_ray.state.store import CommandRecord

__all__ = ["JANITOR", "JANITOR_OPTIONS", "NAMESPACE", "SESSION_OPTIONS", "JanitorHost", "SessionHost", "session_name"]

NAMESPACE = "koda"
JANITOR = "janitor"
SESSION_OPTIONS: dict[str, Any] = {
    "namespace": NAMESPACE,
    "lifetime": "detached",
    "get_if_exists": True,
    "num_cpus": 0,  # it waits for models, tools and renders; those take the CPUs
    "max_restarts": 1_000,
    "max_task_retries": 0,  # commands carry idempotency keys; the directory tries again
    "max_concurrency": 200,
}
JANITOR_OPTIONS: dict[str, Any] = {**SESSION_OPTIONS, "name": JANITOR, "max_restarts": -1, "max_concurrency": 8}


def session_name(session_id: str) -> str:
    """The actor name of a session, unique in the namespace."""
    return f"session:{session_id}"


def _give_back() -> None:
    """Return to the system what importing and starting took and freed again (glibc keeps it otherwise)."""
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _host() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


class _SessionHost:
    """One session's process.

    Args:
        session_id: Which.
        settings: What `Settings.model_dump` gave, without secrets: those come from this process's environment.
    """

    def __init__(self, session_id: str, settings: Mapping[str, object]) -> None:
        self._session_id = session_id
        self._settings = dict(settings)
        self._leaving: asyncio.Task[None] | None = None
        self._me = cast("Any", ray.get_runtime_context()).current_actor
        self._starting = asyncio.get_running_loop().create_task(self._start())

    async def _start(self) -> Session:
        # structlog would import it for colours that no log file shows: 4 MB in each session's process
        sys.modules.setdefault("rich", cast("Any", None))
        from koda_ray.actors.parts import open_parts
        from koda_ray.actors.session import Session
        from koda_ray.render.tasks import RayExecutor

        settings = Settings.model_validate(self._settings)
        executor = RayExecutor(workers=settings.render_workers, chromium_path=settings.chromium_path)
        parts = await open_parts(settings, executor=executor, host=_host(), ended=self._ended)
        session = Session(self._session_id, parts)
        await session.start()
        _give_back()
        return session

    async def _session(self) -> Session:
        session = await asyncio.shield(self._starting)
        if session.closed:
            raise Fenced(f"session {self._session_id} is leaving this process; ask again", retryable=True)
        return session

    def _ended(self) -> None:
        """The session needs this process no longer."""
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())

    async def _leave(self) -> None:
        with contextlib.suppress(Exception):
            await (await asyncio.shield(self._starting)).close()
        # only a method of the actor may end it without Ray starting it again
        self._me.exit.remote()

    async def exit(self) -> None:
        """End this process for good."""
        exit_actor()

    async def ping(self) -> int:
        """Wait until the session is active; returns the process id."""
        await self._session()
        return os.getpid()

    async def submit(self, *, name: str, body: dict[str, JsonValue], key: str, user_id: str) -> CommandRecord:
        """Record a command."""
        return await (await self._session()).submit(name=name, body=body, key=key, user_id=user_id)

    async def preview(self, *, user_id: str) -> PreviewEndpoint:
        """Return the running dev server."""
        return await (await self._session()).preview(user_id)

    async def watch(self, *, watchers: int) -> None:
        """Note how many people follow."""
        await (await self._session()).watch(watchers)

    async def close(self) -> None:
        """Passivate now: save, destroy the sandbox, give up the lease. The process ends with the next `exit`."""
        with contextlib.suppress(Fenced):
            await (await self._session()).close()

    async def memory(self) -> dict[str, float]:
        """Measure this process: unique set size and resident set in MB."""
        import psutil

        info = psutil.Process().memory_full_info()
        return {"uss_mb": info.uss / 2**20, "rss_mb": info.rss / 2**20}


class _JanitorHost:
    """The janitor's process: wakes what owes work, and clears away what nobody owns."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = dict(settings)
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        from koda_ray.actors.directory import RayDirectory
        from koda_ray.actors.janitor import Janitor
        from koda_ray.actors.parts import open_store, sandbox_provider
        from koda_ray.state.storage import Storage

        settings = Settings.model_validate(self._settings)
        store = await open_store(settings)
        directory = RayDirectory(
            settings, store=store, storage=Storage.from_settings(settings), sandboxes=sandbox_provider(settings)
        )
        await Janitor(store=store, wake=directory.wake, sandboxes=sandbox_provider(settings), settings=settings).run()

    async def ping(self) -> int:
        """Return the process id; raises what ended the janitor, if something did."""
        if self._running.done():
            self._running.result()
        return os.getpid()


# Ray's own types for these are incomplete
_remote = cast("Callable[[type], Any]", ray.remote)
SessionHost = _remote(_SessionHost)
JanitorHost = _remote(_JanitorHost)
