"""Sessions, renders of their own and the janitor as Ray actors: detached, named, restarted by Ray, and nothing else.

The classes inside are plain and know nothing of Ray. An actor's ``__init__`` only starts a task; every method awaits
it, so a slow restore never blocks Ray's creation of the actor, and a restarted actor takes its work up before anybody
calls. A session that cannot be started (the disk is full, it was deleted meanwhile) says so to whoever asked, and its
process ends: the next call makes a new one. Imports are late, because a session actor's memory is mostly imports.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

import ray
from pydantic import JsonValue

from koda_ray.actors.followers import Followers
from koda_ray.config import Settings
from koda_ray.errors import Fenced, Unavailable
from koda_ray.logs import get_logger

if TYPE_CHECKING:
    from koda_ray.actors.session import Session
    from koda_ray.actors.standalone import StandaloneRender
    from koda_ray.render.tasks import RayExecutor
    from koda_ray.sandbox.base import PreviewEndpoint
    from koda_ray.state.store import CommandRecord, Store

__all__ = [
    "JANITOR",
    "JANITOR_OPTIONS",
    "NAMESPACE",
    "RENDER_PREFIX",
    "SESSION_OPTIONS",
    "START_S",
    "JanitorHost",
    "RenderHost",
    "SessionHost",
    "render_name",
    "session_name",
]

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
START_S = 60.0
"""How long a session may take to start, in seconds, before its process gives up and ends."""
_ANSWERED_S = 10.0
_AGAIN_S = 1.0
_AGAIN_MAX_S = 30.0
T = TypeVar("T")
_log = get_logger()
JANITOR_OPTIONS: dict[str, Any] = {**SESSION_OPTIONS, "name": JANITOR, "max_restarts": -1, "max_concurrency": 8}


RENDER_PREFIX = "render:"
"""How the names of the actors of renders of their own begin."""


def session_name(session_id: str) -> str:
    """The actor name of a session, unique in the namespace."""
    return f"session:{session_id}"


def render_name(job_id: str) -> str:
    """The actor name of a render of its own, unique in the namespace."""
    return f"{RENDER_PREFIX}{job_id}"


def _give_back() -> None:
    """Return to the system what importing, starting and working took and freed again (glibc keeps it otherwise)."""
    gc.collect()
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
        self._executor: RayExecutor | None = None
        self._followers = Followers(self._watched)
        self._calls: set[asyncio.Task[Any]] = set()
        self._told = False
        self._starting = asyncio.get_running_loop().create_task(self._start())
        self._starting.add_done_callback(self._started)

    def _started(self, starting: asyncio.Task[Session]) -> None:
        error = None if starting.cancelled() else starting.exception()
        if error is not None:
            _log.warning("session did not start", session_id=self._session_id, error=f"{type(error).__name__}: {error}")
            self._ended()

    async def _start(self) -> Session:
        try:
            async with asyncio.timeout(START_S):
                return await self._open()
        except TimeoutError as error:
            raise Unavailable(f"session {self._session_id} could not be started within {START_S:.0f} s") from error

    async def _open(self) -> Session:
        from koda_ray.actors.parts import open_parts
        from koda_ray.actors.session import Session
        from koda_ray.render.memory import MemoryLimit
        from koda_ray.render.tasks import RayExecutor

        settings = Settings.model_validate(self._settings)
        # asks the cluster, which blocks
        self._executor = executor = await asyncio.to_thread(
            lambda: RayExecutor(
                workers=settings.render_workers,
                chromium_path=settings.chromium_path,
                memory=MemoryLimit(settings.render_memory_mb),
            )
        )
        parts = await open_parts(settings, executor=executor, host=_host(), rested=_give_back, ended=self._ended)
        session = Session(self._session_id, parts)
        await session.start()
        _give_back()
        gc.freeze()  # what is there now stays: later collections need not look at it
        return session

    async def _session(self) -> Session:
        leaving = Fenced(f"session {self._session_id} is leaving this process; ask again", retryable=True)
        if self._told:  # why it did not start has been answered; whoever asks now is for the next process
            raise leaving
        try:
            session = await asyncio.shield(self._starting)
        except Exception:
            self._told = True
            raise
        if session.closed:
            raise leaving
        return session

    def _ended(self) -> None:
        """The session needs this process no longer."""
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())

    async def _leave(self) -> None:
        with contextlib.suppress(Exception):
            await self._end(await asyncio.shield(self._starting))
        await self._followers.close()
        if self._calls:  # they have their answers: let them be sent
            await asyncio.wait(self._calls, timeout=_ANSWERED_S)
        # Ray's own way out of an actor keeps its name for two seconds more, in which nobody can activate the session
        await asyncio.to_thread(_kill, self._me, no_restart=True)

    async def _end(self, session: Session) -> None:
        await session.close()
        if self._executor is not None:  # a session that was fenced does not wait for its renders
            await self._executor.cancel_all()

    async def _answer(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call; this process does not end before it is answered."""
        task = asyncio.get_running_loop().create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return await task

    async def ping(self) -> int:
        """Wait until the session is active; returns the process id."""
        await self._answer(self._session())
        return os.getpid()

    async def submit(self, *, name: str, body: dict[str, JsonValue], key: str, user_id: str) -> CommandRecord:
        """Record a command."""

        async def call() -> CommandRecord:
            return await (await self._session()).submit(name=name, body=body, key=key, user_id=user_id)

        return await self._answer(call())

    async def preview(self, *, user_id: str) -> PreviewEndpoint:
        """Return the running dev server."""

        async def call() -> PreviewEndpoint:
            return await (await self._session()).preview(user_id)

        return await self._answer(call())

    async def shown(self, *, user_id: str) -> PreviewEndpoint | None:
        """Return the dev server, where the project is open."""

        async def call() -> PreviewEndpoint | None:
            return await (await self._session()).shown(user_id)

        return await self._answer(call())

    async def watch(self, *, source: str, watchers: int) -> int:
        """Note how many people follow at one server, which repeats it while there are any; returns the sum of all."""
        await self._session()
        return await self._followers.heard(source, watchers)

    async def _watched(self, watchers: int) -> None:
        await (await self._session()).watch(watchers)

    async def close(self) -> None:
        """Passivate now: save, destroy the sandbox, give up the lease."""
        await self._answer(self._end(await asyncio.shield(self._starting)))

    async def memory(self) -> dict[str, float]:
        """Measure this process: unique set size and resident set in MB."""
        import psutil

        info = psutil.Process().memory_full_info()
        return {"uss_mb": info.uss / 2**20, "rss_mb": info.rss / 2**20}


class _RenderHost:
    """The process of one render of its own; it ends with the render.

    Args:
        job_id: Which.
        settings: As a session's.
    """

    def __init__(self, job_id: str, settings: Mapping[str, object]) -> None:
        self._job_id = job_id
        self._settings = dict(settings)
        self._leaving: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._me = cast("Any", ray.get_runtime_context()).current_actor
        self._starting = asyncio.get_running_loop().create_task(self._start())
        self._starting.add_done_callback(self._started)

    def _started(self, starting: asyncio.Task[StandaloneRender]) -> None:
        error = None if starting.cancelled() else starting.exception()
        if error is not None:
            _log.warning("render did not start", job_id=self._job_id, error=f"{type(error).__name__}: {error}")
            self._ended()

    async def _start(self) -> StandaloneRender:
        from koda_ray.actors.parts import open_store
        from koda_ray.actors.standalone import StandaloneRender
        from koda_ray.render.memory import MemoryLimit
        from koda_ray.render.tasks import RayExecutor
        from koda_ray.state.storage import Storage

        settings = Settings.model_validate(self._settings)
        async with asyncio.timeout(START_S):
            executor = await asyncio.to_thread(
                lambda: RayExecutor(
                    workers=settings.render_workers,
                    chromium_path=settings.chromium_path,
                    memory=MemoryLimit(settings.render_memory_mb),
                )
            )
            render = StandaloneRender(
                self._job_id,
                store=await open_store(settings),
                storage=Storage.from_settings(settings),
                executor=executor,
                lease_s=settings.lease_s,
                ended=self._ended,
            )
            await render.start()
        _give_back()
        return render

    def _ended(self) -> None:
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())

    async def _leave(self) -> None:
        await asyncio.wait({self._starting})
        with contextlib.suppress(Exception):
            await self._starting.result().close()
        if self._calls:
            await asyncio.wait(self._calls, timeout=_ANSWERED_S)
        await asyncio.to_thread(_kill, self._me, no_restart=True)

    async def _answer(self, call: Coroutine[Any, Any, T]) -> T:
        task = asyncio.get_running_loop().create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return await task

    async def ping(self) -> int:
        """Wait until the render is under way; returns the process id."""

        async def call() -> int:
            await asyncio.shield(self._starting)
            return os.getpid()

        return await self._answer(call())

    async def stop(self) -> None:
        """End the work with its processes: its row says already that it is cancelled."""

        async def call() -> None:
            await (await asyncio.shield(self._starting)).stop()

        await self._answer(call())

    async def close(self) -> None:
        """Stop working and give the row up, for whoever takes it up next."""

        async def call() -> None:
            await (await asyncio.shield(self._starting)).close()

        await self._answer(call())


class _JanitorHost:
    """The janitor's process: wakes what owes work, and clears away what nobody owns."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = dict(settings)
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        from koda_ray.actors.directory import RayDirectory
        from koda_ray.actors.janitor import Janitor
        from koda_ray.actors.parts import open_store, sandbox_provider
        from koda_ray.actors.sweep import Sweep
        from koda_ray.state.storage import Storage

        settings = Settings.model_validate(self._settings)
        store = await _persist(lambda: open_store(settings))
        sandboxes = sandbox_provider(settings)
        storage = Storage.from_settings(settings)
        directory = RayDirectory(settings, store=store, storage=storage, sandboxes=sandboxes)
        sweep = Sweep(
            store=store,
            storage=storage,
            units_kept=timedelta(days=settings.keep_units_days),
            pages_kept=timedelta(days=settings.keep_pages_days),
        )
        janitor = Janitor(
            store=store,
            wake=directory.wake,
            wake_render=directory.wake_render,
            finish=directory.finish,
            sandboxes=sandboxes,
            settings=settings,
            sweep=sweep.step,
        )
        await janitor.run()

    async def ping(self) -> int:
        """Return the process id; raises what ended the janitor, if something did."""
        if self._running.done():
            self._running.result()
        return os.getpid()


async def _persist(open_it: Callable[[], Coroutine[Any, Any, Store]]) -> Store:
    """Open the database, however often that fails: there is one janitor, and nobody starts it a second time."""
    wait_s = _AGAIN_S
    while True:
        began = time.monotonic()
        try:
            return await open_it()
        except Exception as error:
            _log.warning("janitor cannot open the database", error=str(error), seconds=time.monotonic() - began)
        await asyncio.sleep(wait_s)
        wait_s = min(_AGAIN_MAX_S, wait_s * 2)


# Ray's own types for these are incomplete
_remote = cast("Callable[[type], Any]", ray.remote)
_kill = cast("Callable[..., None]", ray.kill)  # pyright: ignore[reportUnknownMemberType]
SessionHost = _remote(_SessionHost)
RenderHost = _remote(_RenderHost)
JanitorHost = _remote(_JanitorHost)
