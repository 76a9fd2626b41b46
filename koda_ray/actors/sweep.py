"""What was made from something else and that nobody has used for days is removed, a little at a time.

Units, the notes of which job made which video, bundles, and results that no row names any more all grow without end
otherwise. Each counts as used when it was last written or touched, which whoever uses it does (`read_unit`,
`store_bundle`), and what rows of sessions and of jobs under way name is kept however old it is. Where a unit goes all
the same in the middle of a job, the join misses it and it is captured again.

A pass looks at so much and no more, and the next goes on where it ended: a bucket of millions of objects costs the same
minute by minute as a small one. Files of sessions (their checkpoints, and what was uploaded for them) go with their
sessions and are not touched here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from koda_ray.actors.removal import remove_asset, results_of
from koda_ray.errors import Conflict, InvalidPath, KodaError, NotFound
from koda_ray.logs import get_logger
from koda_ray.state.content import CONTENT_LEASE
from koda_ray.state.locks import holding
from koda_ray.state.storage import (
    CONTENT_KINDS,
    ContentKind,
    Storage,
    Stored,
    bundle_prefix,
    content_prefix,
    render_prefix,
    renders_prefix,
    user_prefix,
    users_prefix,
)
from koda_ray.state.store import Store
from koda_ray.types import now

__all__ = ["PASS_SIZE", "REST", "Retention", "Sweep"]

PASS_SIZE = 2_000
"""How many objects one pass looks at, about."""
REST = timedelta(hours=6)
"""From the beginning of one round through everything to the next."""
_LISTING = 20
"""What a listing costs, in objects; a removal costs the same, and a row one."""
_MANY = 100_000
_SOME = 100
_log = get_logger()


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long what nobody uses is kept.

    Args:
        units: Rendered units.
        pages: Bundles, notes of videos, and results without a row.
        assets: Uploaded files that no session has.
    """

    units: timedelta
    pages: timedelta
    assets: timedelta


class Sweep:
    """Goes round storage for ever, a bounded piece with each `step`.

    Args:
        store: Says which bundles are needed and which results are somebody's. Of one storage there is one.
        storage: What is swept.
        kept: How long what nobody uses is kept.
        size: How many objects a step looks at, about.
        clock: Says what time it is.
    """

    def __init__(
        self,
        *,
        store: Store,
        storage: Storage,
        kept: Retention,
        size: int = PASS_SIZE,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._store = store
        self._storage = storage
        self._retention = kept
        self._size = size
        self._clock = clock
        self._round: AsyncGenerator[int] | None = None
        self._rest_until: datetime | None = None
        self._kept: dict[str, set[str]] = {}
        self._gone: list[str] = []

    async def step(self) -> list[str]:
        """Go on where the step before ended.

        Returns:
            The prefixes under which everything was removed.

        Raises:
            StorageError: Storage cannot be listed; the next step begins anew.
        """
        if self._round is None:
            if self._rest_until is not None and self._clock() < self._rest_until:
                return []
            self._rest_until = self._clock() + REST
            self._round = self._all()
        self._gone, spent = [], 0
        try:
            while spent < self._size:
                spent += await anext(self._round)
        except BaseException as error:
            self._round = None
            if not isinstance(error, StopAsyncIteration):
                self._rest_until = None
                raise
        return self._gone

    async def close(self) -> None:
        """Forget the round under way; may be called twice."""
        if self._round is not None:
            await self._round.aclose()
            self._round = None

    async def _all(self) -> AsyncGenerator[int]:
        """Walk through everything once; yields what each piece cost."""
        self._kept = {}
        await self._storage.sweep()
        async with aclosing(self._loose()) as pieces:
            async for cost in pieces:
                yield cost
        for user_id in await self._storage.folders(users_prefix()):
            try:
                user_prefix(user_id)
            except InvalidPath:  # a folder that is not ours
                continue
            for kind in CONTENT_KINDS:
                prefix = content_prefix(user_id, kind)
                yield _LISTING
                for shard in await self._storage.folders(prefix):
                    try:
                        async with aclosing(self._shard(user_id, kind, f"{prefix}/{shard}")) as pieces:
                            async for cost in pieces:
                                yield cost
                    except KodaError as error:
                        _left(f"{prefix}/{shard}", error)
            yield _LISTING
            for job_id in await self._storage.folders(renders_prefix(user_id)):
                try:
                    yield await self._result(user_id, job_id)
                except KodaError as error:
                    _left(f"the result of {job_id}", error)
            async with aclosing(self._lost(user_id)) as pieces:
                async for cost in pieces:
                    yield cost

    async def _loose(self) -> AsyncGenerator[int]:
        """Remove uploaded files that no session came to have."""
        while found := await self._store.loose_assets(self._clock() - self._retention.assets, limit=_SOME):
            for asset in found:
                try:
                    await remove_asset(asset.id, asset.user_id, store=self._store, storage=self._storage)
                    self._gone.append(asset.key)
                except (Conflict, NotFound):  # somebody came for it meanwhile
                    continue
                yield 2 * _LISTING

    async def _lost(self, user_id: str) -> AsyncGenerator[int]:
        """Remove uploaded files that no row names: of an upload or a removal that was cut off."""
        limit, named = self._clock() - self._retention.assets, await self._store.asset_keys(user_id)
        for project in await self._storage.folders(f"{user_prefix(user_id)}/projects"):
            prefix = f"{user_prefix(user_id)}/projects/{project}/assets"
            yield _LISTING
            found = await self._storage.look_below(prefix)
            for stored in found:
                if stored.key not in named and stored.at < limit:
                    await self._storage.delete(stored.key)
                    self._gone.append(stored.key)
            yield len(found)

    async def _shard(self, user_id: str, kind: ContentKind, prefix: str) -> AsyncGenerator[int]:
        found = await self._storage.look_below(prefix)
        limit = self._clock() - (self._retention.units if kind == "units" else self._retention.pages)
        depth = prefix.count("/") + 2
        old = [
            folder
            for folder, inside in groupby(found, key=lambda stored: "/".join(stored.key.split("/")[:depth]))
            if _last(inside) < limit
        ]
        if old:
            needed = await self._needed(user_id)
            old = [folder for folder in old if folder not in needed]
        yield _LISTING + len(found)
        for folder in old:
            yield await (self._bundle(user_id, folder, limit) if kind == "bundles" else self._remove(folder, limit))

    async def _bundle(self, user_id: str, folder: str, limit: datetime) -> int:
        """Remove a bundle, unless a session is at work: it may be about to use it."""
        bundle = folder.rpartition("/")[2]
        until = now() + CONTENT_LEASE
        lock = await self._store.take_bundle(user_id, bundle, holder="sweep", lease_until=until, finished=False)
        if lock is None:
            return 1
        async with holding(self._store, lock, lease_s=CONTENT_LEASE.total_seconds()):
            return await self._remove(folder, limit)

    async def _result(self, user_id: str, job_id: str) -> int:
        """Remove a result that no row names: of `koda render`, which works without rows, or of a cut-off deletion."""
        prefix, limit = render_prefix(user_id, job_id), self._clock() - self._retention.pages
        try:
            await self._store.get_job(job_id)
        except NotFound:
            if prefix not in await self._shown_results(user_id):
                return await self._remove(prefix, limit)
        return 1

    async def _shown_results(self, user_id: str) -> set[str]:
        """Return the folders of results that some job shows: that of a deleted session's may be a fork's as well."""
        return {prefix for job in await self._store.list_jobs(user_id=user_id) for prefix in results_of(job)}

    async def _remove(self, prefix: str, limit: datetime) -> int:
        """Remove a folder, unless somebody has come to use it meanwhile."""
        found = await self._storage.look_below(prefix)
        if found and _last(found) < limit:
            for stored in found:
                if stored.key.endswith(".json"):  # first: what is left of a unit without its note is no unit
                    await self._storage.delete(stored.key)
            await self._storage.delete_prefix(prefix)
            self._gone.append(prefix)
        return _LISTING

    async def _needed(self, user_id: str) -> set[str]:
        """Return the folders of bundles that a session may still render, and of bundles and units of jobs under way.

        Looked up once in a round: what is needed since has been touched since.
        """
        if user_id not in self._kept:
            sessions = await self._store.list_sessions(user_id, limit=_MANY)
            jobs = [job for job in await self._store.list_jobs(user_id=user_id) if job.status in ("queued", "running")]
            bundles = {row.state.preview.bundle for row in sessions if row.state.preview is not None}
            bundles |= {bundle for job in jobs if isinstance(bundle := job.spec.get("bundle"), str)}
            kept = {bundle_prefix(user_id, bundle) for bundle in bundles}
            for job in jobs:
                kept |= {chunk.key.rpartition("/")[0] for chunk in await self._store.chunks(job.id)}
            self._kept = {user_id: kept}
        return self._kept[user_id]


def _left(what: str, error: KodaError) -> None:
    """Leave something for the next round: the others go on."""
    _log.warning("could not sweep", what=what, code=error.code, error=error.message)


def _last(found: Iterable[Stored]) -> datetime:
    return max(stored.at for stored in found)
