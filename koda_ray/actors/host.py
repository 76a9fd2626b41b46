"""Sessions and page renders as Ray actors: detached, named, restarted by Ray, and nothing else.

The classes inside are plain and know nothing of Ray. An actor's ``__init__`` only starts a task; every method awaits
it, so a slow restore never blocks Ray's creation of the actor, and a restarted actor takes its work up before anybody
calls. A session that cannot be started (the disk is full, it was deleted meanwhile) says so to whoever asked, and its
process ends: the next call makes a new one. Imports are late, because a session actor's memory is mostly imports.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import ray
from ray._private.state import state

from koda_ray.actors.followers import Followers
from koda_ray.actors.frugal import Frugal, give_back
from koda_ray.actors.session_door import SessionDoor
from koda_ray.config import Settings
from koda_ray.errors import Fenced, InvalidInput, StorageError, Unavailable
from koda_ray.logs import get_logger, name_process
from koda_ray.metrics import ACTIVATION
from koda_ray.render.fitness import note_outdated
from koda_ray.resources import COORDINATOR_SHARE, SESSION_RESOURCE

if TYPE_CHECKING:
    from koda_ray.actors.coordinator import Coordinator
    from koda_ray.actors.session import Session
    from koda_ray.render.tasks import RayExecutor
    from koda_ray.sandbox.base import PreviewEndpoint
    from koda_ray.sandbox.node_door import DoorAddress
    from koda_ray.state.records import CommandRecord
    from koda_ray.tools.workbench import Picture

__all__ = [
    "NAMESPACE",
    "RENDERS_PREFIX",
    "SESSION_OPTIONS",
    "SESSION_PREFIX",
    "START_S",
    "CoordinatorHost",
    "SessionHost",
    "await_session_slots",
    "coordinator_name",
    "remote",
    "session_name",
]

NAMESPACE = "koda"
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
_ASKED_S = 5.0
_SENT_S = 0.5
_SLOTS_S = 90.0
_LOOK_S = 0.5
T = TypeVar("T")
W = TypeVar("W")
_log = get_logger()


SESSION_PREFIX = "session:"
"""How the names of the actors of sessions begin."""
RENDERS_PREFIX = "renders:"
"""How the names of the actors that coordinate page renders begin."""


def session_name(session_id: str, activation: int) -> str:
    """The actor name of a session, unique in the namespace; the number stands in its row."""
    return f"{SESSION_PREFIX}{session_id}:{activation}"


def coordinator_name(number: int) -> str:
    """The actor name of a process of page renders, unique in the namespace."""
    return f"{RENDERS_PREFIX}{number}"


def await_session_slots(*, within_s: float = _SLOTS_S) -> None:
    """Wait until a node offers places for sessions, or the cluster's autoscaler says that it may bring one.

    Args:
        within_s: For how long, in seconds: nodes may join a little after the head.

    Raises:
        InvalidInput: None does. Ray would take it for a node that may still come, and every session would wait for it.
    """
    deadline = time.monotonic() + within_s
    while not any(offered.get(SESSION_RESOURCE, 0) > 0 for offered in (_cluster_resources(), _may_come() or {})):
        if time.monotonic() >= deadline:
            raise InvalidInput(
                f"no node of the Ray cluster offers the resource {SESSION_RESOURCE!r}, on which sessions are placed: "
                "start those that shall hold sessions, machines that nobody takes away, with "
                f"""ray start --resources='{{"{SESSION_RESOURCE}": 8}}' (how many each holds)"""
            )
        time.sleep(_LOOK_S)


def _host() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


async def _executor(settings: Settings) -> RayExecutor:
    from koda_ray.actors.ray_metrics import RayMetrics
    from koda_ray.render.memory import MemoryLimit
    from koda_ray.render.tasks import RayExecutor

    # asks the cluster, which blocks
    executor = await asyncio.to_thread(
        lambda: RayExecutor(
            workers=settings.render_workers,
            most=settings.browsers_max,
            chromium_path=settings.chromium_path,
            memory=MemoryLimit(settings.render_memory_mb),
            graphics=settings.render_graphics,
            metrics=RayMetrics(),
        )
    )
    executor.space_mb = settings.node_room_mb
    return executor


class _Host(Frugal, Generic[W]):
    """A process for one piece of work: it starts it, answers what it is asked about it, and ends with it."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self._leaving: asyncio.Task[None] | None = None
        context = cast("Any", ray.get_runtime_context())
        self._me = context.current_actor
        name_process(node=context.get_node_id())
        self._calls: set[asyncio.Task[Any]] = set()
        self._asked = asyncio.Event()
        self._told = False  # why it did not start
        self._answered_at = 0.0
        self._starting = asyncio.get_running_loop().create_task(self._start())
        self._starting.add_done_callback(self._started)

    async def _open(self) -> W:
        """Start the work."""
        raise NotImplementedError

    async def _end(self, work: W) -> None:
        """End the work, if it has not ended."""
        raise NotImplementedError

    async def _start(self) -> W:
        try:
            async with asyncio.timeout(START_S):
                return await self._open()
        except TimeoutError as error:
            raise Unavailable(f"{self._what} could not be started within {START_S:.0f} s") from error
        except StorageError as error:
            if error.code != "SCHEMA_NEWER":
                raise
            await asyncio.to_thread(note_outdated)
            raise Fenced(f"{self._what} was put on a node with an older version; ask again", retryable=True) from error

    def _started(self, starting: asyncio.Task[W]) -> None:
        error = None if starting.cancelled() else starting.exception()
        if error is not None:
            _log.warning(f"{self._what} did not start", error=f"{type(error).__name__}: {error}")
            self._ended()

    async def _work(self) -> W:
        """Return the work once it is started.

        Raises:
            Fenced: It did not start, and somebody has been told why: whoever asks now is for the next process.
        """
        self._asked.set()
        if self._told:
            raise self._fenced()
        try:
            return await asyncio.shield(self._starting)
        except Exception:
            self._told = True
            raise

    def _fenced(self) -> Fenced:
        return Fenced(f"{self._what} is leaving this process; ask again", retryable=True)

    def _ended(self) -> None:
        """The work needs this process no longer."""
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())

    async def _leave(self) -> None:
        try:
            await self._end(await asyncio.shield(self._starting))
        except Exception:
            with contextlib.suppress(TimeoutError):  # whoever had it started may be about to ask, and is to hear why
                async with asyncio.timeout(_ASKED_S):
                    await self._asked.wait()
        if self._calls:
            await asyncio.wait(self._calls, timeout=_ANSWERED_S)
        # Ray sends an answer a moment after it was given, and what is killed sends none
        await asyncio.sleep(self._answered_at + _SENT_S - time.monotonic())
        # Ray's own way out of an actor keeps its name for two seconds more, in which nobody can activate it anew
        await asyncio.to_thread(_kill, self._me, no_restart=True)

    async def _answer(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call; this process does not end before it is answered."""
        task = asyncio.get_running_loop().create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            return await task
        finally:
            self._answered_at = time.monotonic()


class _SessionHost(_Host["Session"]):
    """One session's process.

    Args:
        session_id: Which.
        activation: Under which number it is sought: one that Ray starts again after that has changed gets no session.
        settings: What `Settings.model_dump` gave, without secrets: those come from this process's environment.
    """

    def __init__(self, session_id: str, activation: int, settings: Mapping[str, object]) -> None:
        super().__init__(f"session {session_id}")
        self._session_id = session_id
        self._activation = activation
        self._settings = dict(settings)
        self._executor: RayExecutor | None = None
        self._followers = Followers(self._watched)
        self._door = SessionDoor()

    async def _open(self) -> Session:
        from koda_ray.actors.parts import open_parts
        from koda_ray.actors.ray_metrics import RayMetrics
        from koda_ray.actors.session import Session

        began = time.monotonic()
        settings = Settings.model_validate(self._settings)
        self._executor = executor = await _executor(settings)
        parts = await open_parts(settings, executor=executor, host=_host(), rested=give_back, ended=self._ended)
        session = await Session.open(self._session_id, parts, activation=self._activation)
        name_process(session_id=self._session_id, epoch=session.core.epoch)
        RayMetrics().note(ACTIVATION, time.monotonic() - began)
        give_back()
        gc.freeze()  # what is there now stays: later collections need not look at it
        return session

    async def _session(self) -> Session:
        session = await self._work()
        if session.closed:
            raise self._fenced()
        return session

    async def _end(self, work: Session) -> None:
        await work.close()
        await self._followers.close()
        await self._door.close()
        if self._executor is not None:  # a session that was fenced does not wait for its renders
            await self._executor.cancel_all()

    async def ping(self) -> int:
        """Wait until the session is active; returns the process id."""
        await self._answer(self._session())
        return os.getpid()

    async def here(self) -> bool:
        """Say whether this process holds its session or is about to, whatever that does."""
        if not self._starting.done():
            return True
        return not self._starting.cancelled() and self._starting.exception() is None and (await self._work()).is_held

    async def take(self, *, key: str) -> CommandRecord:
        """Take what waits for the session, and return the command under this key."""

        async def call() -> CommandRecord:
            return await (await self._session()).intake.take(key)

        return await self._answer(call())

    async def preview(self, *, user_id: str, node: str) -> PreviewEndpoint | DoorAddress:
        """Return the running dev server, as it is reached from a node."""

        async def call() -> PreviewEndpoint | DoorAddress:
            return await self._door.seen_from(node, await (await self._session()).preview(user_id))

        return await self._answer(call())

    async def picture(self, *, user_id: str, at_s: float, size: tuple[int, int]) -> Picture:
        """Picture a frame of the page, and keep it."""

        async def call() -> Picture:
            return await (await self._session()).picture(user_id, at_s, size)

        return await self._answer(call())

    async def shown(self, *, user_id: str, node: str) -> PreviewEndpoint | DoorAddress | None:
        """Return the dev server, where the project is open, as it is reached from a node."""

        async def call() -> PreviewEndpoint | DoorAddress | None:
            endpoint = await (await self._session()).shown(user_id)
            return None if endpoint is None else await self._door.seen_from(node, endpoint)

        return await self._answer(call())

    async def watch(self, *, source: str, watchers: int) -> int:
        """Note how many people follow at one server, which repeats it while there are any; returns the sum of all."""
        await self._session()
        return await self._followers.heard(source, watchers)

    async def _watched(self, watchers: int) -> None:
        await (await self._session()).watch(watchers)

    async def close(self) -> None:
        """Passivate now: save, destroy the sandbox, give up the lease. Then this process ends."""
        session = await asyncio.shield(self._starting)
        try:
            await self._answer(self._end(session))
        finally:
            self._ended()

    async def memory(self) -> dict[str, float]:
        """Measure this process: unique set size and resident set in MB."""
        import psutil

        info = psutil.Process().memory_full_info()
        return {"uss_mb": info.uss / 2**20, "rss_mb": info.rss / 2**20}


class _CoordinatorHost(_Host["Coordinator"]):
    """The process of several page renders; it ends when there have been none for a while.

    Args:
        settings: As a session's.
    """

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__("a coordinator of renders")
        self._settings = dict(settings)

    async def _open(self) -> Coordinator:
        from koda_ray.actors.coordinator import Coordinator
        from koda_ray.actors.leased_job import JobParts
        from koda_ray.actors.parts import open_store
        from koda_ray.agent.purse import Purse
        from koda_ray.state.storage import Storage

        settings = Settings.model_validate(self._settings)
        parts = JobParts(
            executor=await _executor(settings),
            store=await open_store(settings),
            storage=Storage.from_settings(settings),
            purse=Purse(None, monthly=settings.user_budget),
        )
        lease_s, idle_s = settings.lease_s, settings.idle_timeout_s
        coordinator = Coordinator(parts, lease_s=lease_s, idle_s=idle_s, rested=give_back, ended=self._ended)
        give_back()
        return coordinator

    async def _end(self, work: Coordinator) -> None:
        await work.close()

    async def begin(self, job_id: str) -> int:
        """Have a render worked on here; returns the process id."""

        async def call() -> None:
            await (await self._work()).begin(job_id)

        await self._answer(call())
        return os.getpid()

    async def stop(self, job_id: str) -> None:
        """End the work on a render, with its processes: its row says already that it is cancelled."""

        async def call() -> None:
            await (await self._work()).stop(job_id)

        await self._answer(call())

    async def close(self) -> None:
        """Stop working and give all rows up, for whoever takes them up next."""

        async def call() -> None:
            await (await self._work()).close()

        await self._answer(call())


def remote(cls: type, *, slots: float) -> Any:
    """Make a class of actors that are put where sessions are, each on so much of a session's place."""
    return _remote(resources={SESSION_RESOURCE: slots})(cls)


# Ray's own types for these are incomplete
_remote = cast("Callable[..., Callable[[type], Any]]", ray.remote)
_kill = cast("Callable[..., None]", ray.kill)  # pyright: ignore[reportUnknownMemberType]
_cluster_resources = cast("Callable[[], dict[str, float]]", ray.cluster_resources)
_may_come = state.get_max_resources_from_cluster_config
SessionHost = remote(_SessionHost, slots=1)
CoordinatorHost = remote(_CoordinatorHost, slots=COORDINATOR_SHARE)
