"""The janitor as a Ray actor, of which a cluster has one: it wakes what owes work, and clears away what nobody owns."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from koda_ray.actors.directory import CALL_TIMEOUT_S, RayDirectory, public_settings
from koda_ray.actors.frugal import Frugal
from koda_ray.actors.host import SESSION_OPTIONS, remote
from koda_ray.actors.janitor_round import JanitorRound
from koda_ray.config import Settings
from koda_ray.logs import get_logger
from koda_ray.resources import COORDINATOR_SHARE

if TYPE_CHECKING:
    from koda_ray.actors.janitor import Janitor
    from koda_ray.sandbox.base import SandboxProvider

__all__ = ["JANITOR", "start_janitor"]

JANITOR = "janitor"
_OPTIONS: dict[str, Any] = {**SESSION_OPTIONS, "name": JANITOR, "max_restarts": -1, "max_concurrency": 8}
_AGAIN_S = 1.0
_AGAIN_MAX_S = 30.0
_log = get_logger()


async def start_janitor(settings: Settings) -> None:
    """Make sure that the cluster has its janitor."""
    public = public_settings(settings)
    handle = await asyncio.to_thread(lambda: _Janitor.options(**_OPTIONS).remote(public))
    async with asyncio.timeout(CALL_TIMEOUT_S):
        await handle.ping.remote()


class _JanitorHost(Frugal):
    """The janitor's process: wakes what owes work, and clears away what nobody owns."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__()
        self._settings = dict(settings)
        self._janitor: Janitor | None = None
        self._running = asyncio.get_running_loop().create_task(_persist(self._run))

    async def _run(self) -> None:
        from koda_ray.actors.janitor import Chores, Janitor
        from koda_ray.actors.parts import open_store, sandbox_provider
        from koda_ray.actors.ray_metrics import RayMetrics
        from koda_ray.actors.reaper import Reaper
        from koda_ray.actors.reaping import rounds
        from koda_ray.actors.sweep import Retention, Sweep
        from koda_ray.state.storage import Storage

        settings = Settings.model_validate(self._settings)
        store = await open_store(settings)
        deployment = await store.deployment()
        sandboxes = sandbox_provider(settings, deployment=deployment)
        storage = Storage.from_settings(settings)

        async def same() -> SandboxProvider:
            return sandboxes

        directory = RayDirectory(settings, store=store, storage=storage, sandboxes=same)
        sweep = Sweep(
            store=store,
            storage=storage,
            kept=Retention.of(settings),
            metrics=RayMetrics(),
        )
        janitor = Janitor(
            store=store,
            reaper=Reaper.of(settings, store=store, deployment=deployment, sandboxes=sandboxes, clouds=True),
            settings=settings,
            metrics=RayMetrics(),
            chores=Chores(
                wake=directory.wake,
                wake_render=directory.wake_render,
                finish=directory.finish,
                sweep=sweep.step,
                elsewhere=rounds(self._settings).clear,
            ),
        )
        self._janitor = janitor
        await janitor.run()

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


_Janitor = remote(_JanitorHost, places=COORDINATOR_SHARE)
