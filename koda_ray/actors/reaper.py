"""What is cleared away on one machine, because only there it can be seen: its sandboxes, and its temporary folders.

A cluster's janitor does this where it stands; on every other node a round of it is a task of the janitor's
(`reaping`). Which sandboxes are needed the database says to all of them alike, and each asks only the providers whose
sandboxes are on its machine; what is in a cloud is asked once, by the janitor's own.

A session that sleeps while a sandbox has its files is not woken here but named: who is woken, and when, is the
janitor's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from koda_ray.actors.chores import logged
from koda_ray.config import Settings
from koda_ray.errors import Missing, NotFound, SandboxError
from koda_ray.render.isolation import sweep_dead_folders
from koda_ray.sandbox.base import SandboxInfo, SandboxProvider
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.scratch import clear_left
from koda_ray.sandbox.service import REAP_GRACE_S, SandboxService, other_providers
from koda_ray.sandbox.unfinished import clear_own
from koda_ray.state.boxes import SandboxRecord
from koda_ray.state.records import SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import now

__all__ = ["Reaped", "Reaper"]


@dataclass(kw_only=True)
class Reaped:
    """What a round came to.

    Attributes:
        gone: The ids of the sandboxes that were destroyed, and of people's images that were left half made.
        unsaved: The ids of sessions that sleep and owe nothing, while a sandbox here has files of theirs.
        standing: How many sandboxes are left here that somebody needs, or may need.
    """

    gone: list[str] = field(default_factory=list[str])
    unsaved: list[str] = field(default_factory=list[str])
    standing: int = 0


class Reaper:
    """Clears one machine.

    Args:
        store: The database.
        sandboxes: The provider that makes sandboxes here.
        settings: How long a session that was let go may still come back.
        others: Finds the providers that make none any more, whose sandboxes may still be here.
        own: Removes what people made for themselves here that was left half made, or whose time is over.
        clouds: Whether sandboxes that are reached from everywhere are cleared too.
    """

    def __init__(
        self,
        *,
        store: Store,
        sandboxes: SandboxProvider,
        settings: Settings,
        others: Callable[[], Awaitable[Sequence[SandboxProvider]]] | None = None,
        own: Callable[[], Awaitable[list[str]]] | None = None,
        clouds: bool = True,
    ) -> None:
        self._store = store
        self._sandboxes = sandboxes
        self._settings = settings
        self._others = others
        self._own = own
        self._clouds = clouds

    @classmethod
    def of(
        cls, settings: Settings, *, store: Store, deployment: str, sandboxes: SandboxProvider, clouds: bool
    ) -> Reaper:
        """Make the one of a machine from settings.

        Args:
            settings: What describes the providers.
            store: The database.
            deployment: Whose sandboxes (``Store.deployment``).
            sandboxes: The provider that makes sandboxes here.
            clouds: As of the class.
        """
        providers = Providers(settings, store, clouds=clouds)
        others: list[SandboxProvider] = []

        async def other_sandboxes() -> list[SandboxProvider]:
            named = {row.provider for row in await store.sandboxes()}
            known = [other.name for other in others]
            others.extend(other_providers(settings, sandboxes, deployment=deployment, named=named, known=known))
            return others

        return cls(
            store=store,
            sandboxes=sandboxes,
            settings=settings,
            others=other_sandboxes,
            own=lambda: clear_own(store, providers),
            clouds=clouds,
        )

    async def keep_warm(self) -> None:
        """Keep sandboxes ready here until cancelled; over at once where the provider makes none."""
        await SandboxService(self._sandboxes).keep_warm()

    async def clear(self) -> Reaped:
        """Go round once: destroy sandboxes that are provably ours and that nobody needs, and remove what is dead."""
        done = Reaped()
        if self._own is not None:
            done.gone += await logged(self._own(), "clear what people made") or []
        await logged(self._reap(done), "clear sandboxes")
        await logged(asyncio.to_thread(sweep_dead_folders), "clear temporary folders")
        await logged(asyncio.to_thread(clear_left), "remove what was left of images")
        return done

    async def _reap(self, done: Reaped) -> None:
        await self._reap_at(self._sandboxes, done)
        for provider in () if self._others is None else await self._others():
            with suppress(SandboxError, Missing):  # its engine is away, and with it whatever it may have
                await self._reap_at(provider, done)

    async def _reap_at(self, provider: SandboxProvider, done: Reaped) -> None:
        if not self._clouds and (await provider.location()).everywhere:
            return
        found = await provider.list()
        over = {row.id: row.time_over for row in await self._store.sandboxes() if row.expired_at(now())}
        gone = await self._reap_of(provider, found, done)
        done.gone += gone
        done.standing += sum(not info.warm and info.id not in gone for info in found)
        for sandbox_id in (*gone, *await self._never_made(provider, {info.id for info in found})):
            await self._store.sandbox_destroyed(sandbox_id, why=over.get(sandbox_id, ""))

    async def _reap_of(self, provider: SandboxProvider, found: Sequence[SandboxInfo], done: Reaped) -> list[str]:
        rows = [row for row in await self._store.sandboxes() if row.provider == provider.name]
        listed = {name for info in found for name in (info.id, info.provider_id)}
        needed = [row for row in rows if listed & {row.id, row.provider_id} and await self._used(row, done)]
        ids = [row.id for row in needed]
        ids += [info.id for info in found if await self._has(info.session_id, info.id, done)]
        at_provider = {row.provider_id for row in needed if row.provider_id}
        gone = set(await SandboxService(provider).reap(ids, live_provider_ids=at_provider, found=found))
        # one whose record is lost is listed under another id than its row's
        ended = {info.provider_id for info in found if info.id in gone}
        return sorted(gone | {row.id for row in rows if row.provider_id in ended})

    async def _used(self, row: SandboxRecord, done: Reaped) -> bool:
        """Whether a sandbox may still be used: by its session, or as a person's own until its time is over."""
        if row.session_id is None:
            return not row.expired_at(now())
        return await self._has(row.session_id, row.id, done)

    async def _never_made(self, provider: SandboxProvider, found: Collection[str]) -> list[str]:
        """Find rows of sandboxes that do not exist: whoever wrote one was killed before it made it, or ended it."""
        before = now() - timedelta(seconds=REAP_GRACE_S)
        here = await provider.location()
        return [
            row.id
            for row in await self._store.sandboxes()
            if row.session_id is not None  # a person's own are put right by whoever lists them
            and row.provider == provider.name
            and (here.is_where(row.place, row.host) or not row.place)  # on another machine it may well be
            and row.id not in found
            and row.created_at < before
            and not await self._is_used_soon(row.session_id, row.id)
        ]

    async def _has(self, session_id: str | None, sandbox_id: str, done: Reaped) -> bool:
        """Whether a session has this sandbox. One that sleeps is to be woken: what is in it may be nowhere else."""
        session = await self._owner(session_id, sandbox_id)
        if session is None:
            return False
        asleep = session.lease_until is None or session.lease_until < now()
        wakes = session.owes is None and session.delete_at is None  # nobody wakes what was discarded
        if asleep and wakes and session.id not in done.unsaved:
            done.unsaved.append(session.id)
        return True

    async def _owner(self, session_id: str | None, sandbox_id: str) -> SessionRecord | None:
        """Return the session that has this sandbox."""
        if session_id is None:
            return None
        try:
            session = await self._store.get_session(session_id)
        except NotFound:
            return None
        return session if session.state.sandbox_id == sandbox_id else None

    async def _is_used_soon(self, session_id: str, sandbox_id: str) -> bool:
        """Whether a session that lives, or owes work, has this sandbox, so that it finds out by itself."""
        session = await self._owner(session_id, sandbox_id)
        if session is None:
            return False
        let_go = now() - timedelta(seconds=self._settings.idle_timeout_s)
        return session.owes is not None or (session.lease_until is not None and session.lease_until > let_go)
