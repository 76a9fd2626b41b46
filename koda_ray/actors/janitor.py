"""Whatever owes work is woken, and whatever nobody owns is cleared away; a loop over the database, nothing more.

A session sleeps through nothing: one that owes work and whose lease has run out is activated, whoever let it fall and
however often the cluster's head was started anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from koda_ray.config import Settings
from koda_ray.errors import KodaError, NotFound
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.state.store import Store
from koda_ray.types import now

__all__ = ["CLEAR_S", "EVENTS_KEPT", "Janitor"]

CLEAR_S = 60.0
"""Between two clearings, in seconds."""
EVENTS_KEPT = timedelta(days=1)
"""How long events that a later one makes worthless are kept."""
_log = structlog.get_logger()


class Janitor:
    """Looks after all sessions of a database.

    Args:
        store: The database.
        wake: Activates a session by id.
        sandboxes: Lists and destroys sandboxes.
        settings: Intervals.
    """

    def __init__(
        self,
        *,
        store: Store,
        wake: Callable[[str], Awaitable[None]],
        sandboxes: SandboxProvider,
        settings: Settings,
    ) -> None:
        self._store = store
        self._wake = wake
        self._sandboxes = sandboxes
        self._settings = settings

    async def run(self) -> None:
        """Go round until cancelled. One that cannot be helped is logged and tried again the next time."""
        cleared = time.monotonic() - CLEAR_S
        while True:
            try:
                await self.wake_owed()
                if time.monotonic() - cleared >= CLEAR_S:
                    cleared = time.monotonic()
                    await self.clear()
            except KodaError as error:
                _log.warning("janitor", code=error.code, error=error.message)
            except Exception:
                _log.exception("janitor")
            await asyncio.sleep(self._settings.janitor_s)

    async def wake_owed(self) -> list[str]:
        """Activate every session that owes work and that nobody holds; returns their ids."""
        owed = [work.id for work in await self._store.owed(now()) if work.kind == "session"]
        results = await asyncio.gather(*(self._wake(session_id) for session_id in owed), return_exceptions=True)
        for session_id, result in zip(owed, results, strict=True):
            if isinstance(result, BaseException):
                _log.warning("could not wake", session_id=session_id, error=str(result))
            else:
                _log.info("woken", session_id=session_id)
        return owed

    async def clear(self) -> list[str]:
        """Destroy sandboxes that are provably ours and that nobody needs; drop worthless events."""
        gone: list[str] = []
        for info in await self._sandboxes.list():
            if await self._needed(info.session_id, info.id):
                continue
            await self._sandboxes.destroy(info.id)
            await self._store.sandbox_destroyed(info.id)
            gone.append(info.id)
        await self._store.prune_events(now() - EVENTS_KEPT)
        return gone

    async def _needed(self, session_id: str, sandbox_id: str) -> bool:
        """Whether a living session, or one that owes work, has this sandbox."""
        try:
            session = await self._store.get_session(session_id)
        except NotFound:
            return False
        if session.state.sandbox_id != sandbox_id:
            return False
        held = session.lease_until is not None and session.lease_until > now() - timedelta(
            seconds=self._settings.idle_timeout_s
        )
        return held or session.owes is not None
