"""The janitor as a Ray actor, of which a cluster has one: it wakes what owes work, and clears away what nobody owns."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import ray
from ray.exceptions import ActorDiedError

from koda_ray.actors.answering import Lost, answer_or_lost
from koda_ray.actors.chores import logged
from koda_ray.actors.directory import CALL_TIMEOUT_S, RayDirectory, public_settings
from koda_ray.actors.frugal import Frugal
from koda_ray.actors.host import NAMESPACE, SESSION_OPTIONS, remote
from koda_ray.actors.janitor_round import JanitorRound
from koda_ray.cancellation import OneTask, end_all, finish
from koda_ray.config import Settings
from koda_ray.errors import StorageError
from koda_ray.logs import get_logger, name_process
from koda_ray.render.fitness import forget_gone, note_outdated
from koda_ray.render.presence import Presence
from koda_ray.resources import COORDINATOR_SHARE, SESSION_RESOURCE

if TYPE_CHECKING:
    from koda_ray.actors.janitor import Janitor
    from koda_ray.actors.owed_waker import OwedWaker
    from koda_ray.actors.reaper import Reaped
    from koda_ray.sandbox.base import SandboxProvider

__all__ = ["JANITOR", "StandIn", "keep_janitor", "start_janitor"]

JANITOR = "janitor"
_OPTIONS: dict[str, Any] = {**SESSION_OPTIONS, "name": JANITOR, "max_restarts": -1, "max_concurrency": 8}
_AGAIN_S = 1.0
_AGAIN_MAX_S = 30.0
_RETRY_S = 0.1
_KEPT_S = 2.0
_LOOK_S = 1.0
_WHY_CHARS = 300
_log = get_logger()


async def start_janitor(settings: Settings, presence: Presence, *, lost: Callable[[], object] | None = None) -> None:
    """Make sure that the cluster has its janitor, and that this is on a machine that is there.

    Args:
        settings: For it.
        presence: Which nodes can be reached, as all of this process know it.
        lost: Called where it or its machine is gone, before another one is started.
    """
    public = public_settings(settings)
    async with asyncio.timeout(CALL_TIMEOUT_S):
        while True:
            handle = await asyncio.to_thread(_find)
            if handle is None:
                made = _Janitor.options(**_OPTIONS, **await presence.elsewhere(SESSION_RESOURCE))
                handle = await asyncio.to_thread(made.remote, public)
            try:
                await answer_or_lost(handle.ping.remote(), partial(presence.is_lost, handle))
                return
            except Lost:
                _log.warning("the janitor's machine cannot be reached: another is started elsewhere")
                if lost is not None:
                    lost()
                await asyncio.to_thread(_kill, handle, no_restart=True)
            except ActorDiedError:  # that one, whose name is free in a moment
                if lost is not None:
                    lost()
                await asyncio.sleep(_RETRY_S)


def _find() -> Any | None:
    try:
        return _get_actor(JANITOR, namespace=NAMESPACE)
    except ValueError:
        return None


async def keep_janitor(settings: Settings, ends: asyncio.Event, waker: OwedWaker, presence: Presence) -> None:
    """See again and again that there is a janitor, and stand in for it from when it is lost until another answers.

    Several processes on several machines do: the machine of whoever started it may be the one that is lost. A new one
    takes a process of its own, beside those of all that was on the same machine: what owes work need not wait for that.

    Args:
        settings: For it.
        ends: Set once there need be none any more: nobody starts another from then on.
        waker: Wakes what owes work while there is none.
        presence: Which nodes can be reached, as all of this process know it.
    """
    stand_in = StandIn(waker)

    async def keep() -> None:
        while True:
            await asyncio.sleep(_KEPT_S)
            await stand_in.until(start_janitor(settings, presence, lost=stand_in.begin))

    keeping = asyncio.create_task(keep())
    try:
        await ends.wait()
    finally:
        await finish(_end_keeping(keeping, stand_in, waker))


async def _end_keeping(keeping: asyncio.Task[None], stand_in: StandIn, waker: OwedWaker) -> None:
    await end_all((keeping,))
    await stand_in.end()
    await waker.close()


class StandIn:
    """Wakes what owes work while there is no janitor.

    Args:
        waker: Who does.
    """

    def __init__(self, waker: OwedWaker) -> None:
        self._waker = waker
        self._standing_in = OneTask(self._stand_in)

    def begin(self) -> None:
        """Stand in, until there is one again or `end`."""
        self._standing_in.begin()

    async def until(self, there: Awaitable[object]) -> None:
        """Stand in no longer once there is one; where none could be started, go on."""
        try:
            await there
        except Exception as error:  # Ray has no class of its own for all the ways in which a call fails
            _log.info("the janitor does not answer", error=f"{type(error).__name__}: {error}"[:_WHY_CHARS])
        else:
            await self.end()

    async def end(self) -> None:
        """Stand in no longer; what is being woken goes on. May be called twice."""
        await self._standing_in.end()

    async def _stand_in(self) -> None:
        while True:
            await logged(self._waker.look(), "wake")
            await asyncio.sleep(_LOOK_S)


class _JanitorHost(Frugal):
    """The janitor's process: wakes what owes work, and clears away what nobody owns."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__()
        self._settings = dict(settings)
        context = cast("Any", ray.get_runtime_context())
        self._me = context.current_actor
        name_process(node=context.get_node_id())
        self._janitor: Janitor | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._running = asyncio.get_running_loop().create_task(_persist(self._run))

    async def _run(self) -> None:
        from koda_ray.actors.janitor import Chores, Janitor
        from koda_ray.actors.parts import open_store, sandbox_provider
        from koda_ray.actors.ray_metrics import RayMetrics
        from koda_ray.actors.reaper import Reaper
        from koda_ray.actors.reaping import look_at_disk, rounds
        from koda_ray.actors.sweep import Retention, Sweep
        from koda_ray.state.storage import Storage

        settings = Settings.model_validate(self._settings)
        try:
            store = await open_store(settings)
        except StorageError as error:
            if error.code != "SCHEMA_NEWER":
                raise
            await asyncio.to_thread(note_outdated)
            return self._leave()
        deployment = await store.deployment()
        sandboxes = sandbox_provider(settings, deployment=deployment)
        storage = Storage.from_settings(settings)

        async def same() -> SandboxProvider:
            return sandboxes

        directory = RayDirectory(settings, store=store, storage=storage, sandboxes=same)
        elsewhere = rounds(self._settings)

        async def clear_nodes() -> Sequence[Reaped]:
            await asyncio.to_thread(look_at_disk, settings)
            await asyncio.to_thread(forget_gone)
            return await elsewhere.clear()

        metrics = RayMetrics()  # one, since its gauges are told again with what it notes all the time
        sweep = Sweep(store=store, storage=storage, kept=Retention.of(settings), metrics=metrics)
        janitor = Janitor(
            store=store,
            reaper=Reaper.of(settings, store=store, deployment=deployment, sandboxes=sandboxes, clouds=True),
            settings=settings,
            metrics=metrics,
            chores=Chores(
                wake=directory.wake,
                passivate=directory.passivate,
                wake_render=directory.wake_render,
                finish=directory.finish,
                sweep=sweep.step,
                elsewhere=clear_nodes,
            ),
        )
        self._janitor = janitor
        await self._run_beside(janitor.run())

    async def _run_beside(self, janitor: Awaitable[None]) -> None:
        """Run the janitor, and what is none of its rounds: those wait for nodes that are gone, while the head is."""
        from koda_ray.actors.leaving import Leaving
        from koda_ray.actors.stale_leases import stale_leases

        beside = [asyncio.create_task(each.run()) for each in (Leaving(self._leave), stale_leases())]
        try:
            await janitor
        finally:
            await end_all(beside)

    def _leave(self) -> None:
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        """End for good, and let go of what is being woken: whoever sees that there is a janitor starts the next."""
        await end_all((self._running,))
        await asyncio.to_thread(_kill, self._me, no_restart=True)

    async def ping(self) -> int:
        """Return the process id; raises what ended the janitor, if something did."""
        if self._running.done():
            self._running.result()
        return os.getpid()

    async def last(self) -> JanitorRound:
        """Return what it did last."""
        return JanitorRound() if self._janitor is None else self._janitor.last


async def _persist(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the janitor, and again however often that fails: there is one, and nobody starts it a second time."""
    wait_s = _AGAIN_S
    while True:
        began = time.monotonic()
        try:
            return await run()
        except Exception as error:
            _log.warning("the janitor ended", error=str(error), seconds=time.monotonic() - began)
        wait_s = _AGAIN_S if time.monotonic() - began > _AGAIN_MAX_S else wait_s
        await asyncio.sleep(wait_s)
        wait_s = min(_AGAIN_MAX_S, wait_s * 2)


# Ray's own types for these are incomplete
_get_actor = cast("Callable[..., Any]", ray.get_actor)  # pyright: ignore[reportUnknownMemberType]
_kill = cast("Callable[..., None]", ray.kill)  # pyright: ignore[reportUnknownMemberType]
_Janitor = remote(_JanitorHost, slots=COORDINATOR_SHARE)
