"""What was made from something else and that nobody has used for days is removed, a little at a time.

Units, the notes of which job made which video, bundles, and results that no row names any more all grow without end
otherwise. Each counts as used when it was last written or touched, which whoever uses it does (`read_unit`,
`store_bundle`), and what rows of sessions and of jobs under way name is kept however old it is. Where a unit goes all
the same in the middle of a job, the join misses it and it is captured again.

A pass looks at so much and no more, and the next goes on where it ended: a bucket of millions of objects costs the same
minute by minute as a small one. Where it was is forgotten when the process ends; what is gone is gone, so a round that
is begun anew is soon there again. Files of sessions (their checkpoints, and what was uploaded for them) go with their
sessions: one that nobody has used for as long as sessions are kept is closed, and the janitor removes it as one that
its person deleted. A preview's video goes sooner, but not while its person is to say what they think of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

from pydantic import JsonValue

from koda_ray.actors.counting import LISTING, Counting, leave_for_next
from koda_ray.actors.removal import each_job, forget_absent, remove_asset, remove_unneeded, results_of
from koda_ray.config import Settings
from koda_ray.errors import Conflict, InvalidPath, KodaError, NotFound
from koda_ray.logs import get_logger
from koda_ray.metrics import SWEPT, MetricsSink, NoMetrics
from koda_ray.state.content import CONTENT_LEASE
from koda_ray.state.keys import (
    CONTENT_KINDS,
    ContentKind,
    bundle_key,
    bundle_prefix,
    content_prefix,
    projects_prefix,
    render_prefix,
    renders_prefix,
    session_prefix,
    user_prefix,
    users_prefix,
)
from koda_ray.state.locks import holding
from koda_ray.state.records import VIDEO_SWEPT, JobRecord
from koda_ray.state.storage import Storage, Stored
from koda_ray.state.store import Store
from koda_ray.types import now
from koda_ray.video_formats import PLAYED_FORMATS

__all__ = ["PASS_SIZE", "REST", "Retention", "Sweep"]

PASS_SIZE = 2_000
"""How many objects one pass looks at, about."""
REST = timedelta(hours=6)
"""From the beginning of one round through everything to the next."""
_MANY = 100_000
_NOBODY = "nobody"
"""Who holds nothing: no session has such an id."""
_SOME = 100
_AT_ONCE = 20
"""How many videos of a user go after one look at who is to judge them."""
_log = get_logger()


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long what nobody uses is kept.

    Attributes:
        units: Rendered parts.
        pages: Bundles, notes of videos, and results without a row.
        assets: Uploaded files that no session has.
        previews: Videos of previews, from when they were made.
        sessions: Sessions with all that is theirs; for ever when None.
    """

    units: timedelta
    pages: timedelta
    assets: timedelta
    previews: timedelta
    sessions: timedelta | None = None

    @classmethod
    def of(cls, settings: Settings) -> Retention:
        """Read it from the settings."""
        sessions = settings.keep_sessions_days
        return cls(
            units=timedelta(days=settings.keep_units_days),
            pages=timedelta(days=settings.keep_pages_days),
            assets=timedelta(days=settings.keep_assets_days),
            previews=timedelta(hours=settings.keep_previews_hours),
            sessions=None if sessions is None else timedelta(days=sessions),
        )


class Sweep:
    """Goes round storage for ever, a bounded piece with each `step`.

    Args:
        store: Says which bundles are needed and which results are somebody's. Of one storage there is one.
        storage: What is swept.
        kept: How long what nobody uses is kept.
        size: How many objects a step looks at, about.
        clock: Says what time it is.
        metrics: Where it notes what is gone.
    """

    def __init__(
        self,
        *,
        store: Store,
        storage: Storage,
        kept: Retention,
        size: int = PASS_SIZE,
        clock: Callable[[], datetime] = now,
        metrics: MetricsSink | None = None,
    ) -> None:
        self._store = store
        self._storage = storage
        self._retention = kept
        self._size = size
        self._clock = clock
        self._metrics = NoMetrics() if metrics is None else metrics
        self._round: AsyncGenerator[int] | None = None
        self._rest_until: datetime | None = None
        self._kept: dict[str, set[str]] = {}
        self._looked_at: tuple[str, set[str]] | None = None
        self._shown: tuple[str, set[str]] | None = None
        self._over: list[tuple[JobRecord, str]] = []
        self._gone: list[str] = []
        self._counting = Counting(store=store, storage=storage, metrics=self._metrics)

    async def step(self) -> list[str]:
        """Go on where the step before ended.

        Returns:
            What is gone: keys, and prefixes with everything below them; also the prefixes of sessions that were closed,
            whose files the janitor removes.

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
        self._kept, self._looked_at, self._shown, self._over = {}, None, None, []
        self._counting.begin()
        await self._storage.sweep()
        async with aclosing(self._unused()) as pieces:
            async for cost in pieces:
                yield cost
        async with aclosing(self._loose()) as pieces:
            async for cost in pieces:
                yield cost
        async with aclosing(self._counting.checkpoints()) as pieces:
            async for cost in pieces:
                yield cost
        for user_id in await self._storage.folders(users_prefix()):
            try:
                user_prefix(user_id)
            except InvalidPath:  # a folder that is not ours
                continue
            for kind in CONTENT_KINDS:
                prefix = content_prefix(user_id, kind)
                yield LISTING
                shards = await self._storage.folders(prefix)
                for shard in shards:
                    try:
                        async with aclosing(self._shard(user_id, kind, f"{prefix}/{shard}")) as pieces:
                            async for cost in pieces:
                                yield cost
                    except KodaError as error:
                        leave_for_next(f"{prefix}/{shard}", error)
                async with aclosing(self._counting.others(user_id, kind, shards)) as pieces:
                    async for cost in pieces:
                        yield cost
            yield LISTING
            for job_id in await self._storage.folders(renders_prefix(user_id)):
                try:
                    yield await self._result(user_id, job_id)
                except KodaError as error:
                    leave_for_next(f"the result of {job_id}", error)
                if len(self._over) >= _AT_ONCE:
                    yield await self._remove_over(user_id)
            yield await self._remove_over(user_id)
            async with aclosing(self._lost(user_id)) as pieces:
                async for cost in pieces:
                    yield cost
            yield await self._unneeded(user_id)
            async with aclosing(self._counting.pictures(user_id)) as pieces:
                async for cost in pieces:
                    yield cost
        self._counting.end()

    async def _unused(self) -> AsyncGenerator[int]:
        """Begin to remove sessions that nobody has used for so long; the janitor goes on with them."""
        if (kept := self._retention.sessions) is None:
            return
        while closed := await self._store.close_unused(self._clock() - kept, limit=_SOME):
            for row in closed:
                _log.info("unused for too long", session_id=row.id)
                self._removed("sessions", session_prefix(row.user_id, row.project_id, row.id))
            yield LISTING * len(closed)

    def _removed(self, kind: str, prefix: str) -> None:
        self._gone.append(prefix)
        self._metrics.note(SWEPT, 1, kind=kind)

    async def _loose(self) -> AsyncGenerator[int]:
        """Remove uploaded files that no session came to have."""
        while found := await self._store.loose_assets(self._clock() - self._retention.assets, limit=_SOME):
            for asset in found:
                try:
                    await remove_asset(asset.id, asset.user_id, store=self._store, storage=self._storage)
                    self._removed("assets", asset.key)
                except (Conflict, NotFound):  # somebody came for it meanwhile
                    continue
                yield 2 * LISTING

    async def _lost(self, user_id: str) -> AsyncGenerator[int]:
        """Remove uploaded files that no row names: of an upload or a removal that was cut off."""
        limit, named = self._clock() - self._retention.assets, await self._store.asset_keys(user_id)
        for project in await self._storage.folders(projects_prefix(user_id)):
            prefix = f"{projects_prefix(user_id)}/{project}/assets"
            yield LISTING
            found = await self._storage.look_below(prefix)
            for stored in found:
                if stored.key not in named and stored.at < limit:
                    await self._storage.delete(stored.key)
                    self._removed("assets", stored.key)
            yield len(found)

    async def _unneeded(self, user_id: str) -> int:
        """Remove files of checkpoints that nobody needs: what a deletion left while it was not known who needs it."""
        gone: list[str] = []
        try:
            gone = await remove_unneeded(user_id, _NOBODY, store=self._store, storage=self._storage)
        except KodaError as error:
            leave_for_next(f"what nobody of {user_id} needs", error)
        for key in gone:
            self._removed("blobs", key)
        return LISTING + len(gone)

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
        yield LISTING + len(found)
        yield await self._counting.shard(user_id, kind, prefix, found, going=old)
        for folder in old:
            if kind == "bundles":
                yield await self._bundle(user_id, folder, limit)
            else:
                yield await self._remove(kind, folder, limit)
                if kind == "units":
                    await forget_absent(user_id, f"{folder}/video", store=self._store, storage=self._storage)

    async def _bundle(self, user_id: str, folder: str, limit: datetime) -> int:
        """Remove a bundle, unless a session is at work: it may be about to use it."""
        bundle = folder.rpartition("/")[2]
        until = now() + CONTENT_LEASE
        lock = await self._store.take_bundle(user_id, bundle, holder="sweep", lease_until=until, finished=False)
        if lock is None:
            return 1
        async with holding(self._store, lock, lease_s=CONTENT_LEASE.total_seconds()) as held:
            cost = await self._remove("bundles", folder, limit, may=held.check)
            await forget_absent(user_id, bundle_key(user_id, bundle), store=self._store, storage=self._storage)
            return cost

    async def _result(self, user_id: str, job_id: str) -> int:
        """Remove a result that no row names: of `koda render`, which works without rows, or of a cut-off deletion.

        Of one that is an old preview's the video is marked to go, where it is nobody's to judge, and is no final video.
        """
        prefix, limit = render_prefix(user_id, job_id), self._clock() - self._retention.pages
        try:
            job = await self._store.get_job(job_id)
        except NotFound:
            if prefix not in await self._shown_results(user_id):
                return await self._remove("results", prefix, limit)
            return 1 + await self._counting.left(user_id, job_id)
        cost = 1 + await self._counting.result(job)
        is_old = job.updated_at < self._clock() - self._retention.previews
        video = str((job.result or {}).get("videoKey", ""))
        if job.kind != "preview" or job.status != "succeeded" or not is_old or not video.startswith(f"{prefix}/"):
            return cost
        is_marked = VIDEO_SWEPT in (job.result or {})
        if prefix not in await self._watched(user_id) and not (is_marked and not await self._storage.exists(video)):
            self._over.append((job, video))
        return cost + LISTING

    async def _remove_over(self, user_id: str) -> int:
        """Remove a user's videos that are marked, but those that somebody is to judge; looked up once for all."""
        over, self._over = self._over, []
        if not over:
            return 0
        self._looked_at = None  # a session may have been put back to one of these previews meanwhile
        watched = await self._watched(user_id)
        going: list[tuple[JobRecord, str | None]] = []
        for job, video in over:
            if render_prefix(user_id, job.id) in watched:
                continue
            try:
                found = await self._storage.look_below(render_prefix(user_id, job.id))
                taken = sum(stored.size_bytes for stored in found if stored.key != video)
                # first: what is cut off is done again, and a copy that is made from now on says so itself
                swept: dict[str, JsonValue] = {**(job.result or {}), VIDEO_SWEPT: True}
                await self._store.update_job(replace(job, stored_bytes=taken, result=swept))
                going.append((job, video if any(stored.key == video for stored in found) else None))
            except KodaError as error:
                leave_for_next(f"the result of {job.id}", error)
        copies = await self._store.copies(user_id) if going else {}
        for job, video in going:
            try:
                if shown_by := copies.get(job.id):
                    await self._store.note_swept(shown_by)
                if video is not None:
                    await self._storage.delete(video)
                    self._removed("previews", video)
            except KodaError as error:
                leave_for_next(f"the result of {job.id}", error)
        return LISTING * (1 + len(over))

    async def _watched(self, user_id: str) -> set[str]:
        """Return the folders of videos that somebody is to judge, or that are final; kept until it is looked up anew.

        A preview is to be judged until there is a final video of it that browsers play, for which it stands in
        otherwise, as it does where that was deleted, and for as long as a link shows it.
        """
        if self._looked_at is None or self._looked_at[0] != user_id:
            sessions = await self._store.list_sessions(user_id, limit=_MANY, discarded=True)
            jobs = set(await self._store.job_ids(user_id))
            judged = {
                row.state.preview.job_id
                for row in sessions
                if row.state.preview is not None
                and (
                    row.owes is not None
                    or row.state.phase != "complete"
                    or row.state.final_format not in PLAYED_FORMATS
                    or (row.state.output is not None and row.state.output.job_id not in jobs)
                )
            }
            judged |= await self._store.shared_jobs(user_id, at=self._clock())
            shown = set[str]()
            async for job in each_job(self._store, user_id):
                if job.kind != "preview" or job.id in judged:
                    shown |= results_of(job)
            self._looked_at = (user_id, shown)
        return self._looked_at[1]

    async def _shown_results(self, user_id: str) -> set[str]:
        """Return the folders of results that some job shows: that of a deleted session's may be a fork's as well.

        Looked up once in a round: what no job shows comes to be shown by none, since a fork shows what some job does.
        """
        if self._shown is None or self._shown[0] != user_id:
            self._shown = (
                user_id,
                {prefix async for job in each_job(self._store, user_id) for prefix in results_of(job)},
            )
        return self._shown[1]

    async def _remove(self, kind: str, prefix: str, limit: datetime, *, may: Callable[[], None] | None = None) -> int:
        """Remove a folder, unless somebody has come to use it meanwhile; ``may`` raises where one must not any more."""
        found = await self._storage.look_below(prefix)
        if found and _last(found) < limit:
            if may is not None:
                may()
            for stored in found:
                if stored.key.endswith(".json"):  # first: what is left of a unit without its note is no unit
                    await self._storage.delete(stored.key)
            await self._storage.delete_prefix(prefix)
            self._removed(kind, prefix)
        return LISTING

    async def _needed(self, user_id: str) -> set[str]:
        """Return the folders of bundles that a session may still render, and of bundles and units of jobs under way.

        Looked up once in a round: what is needed since has been touched since.
        """
        if user_id not in self._kept:
            sessions = await self._store.list_sessions(user_id, limit=_MANY, discarded=True)
            jobs = [job async for job in each_job(self._store, user_id) if job.status in ("queued", "running")]
            bundles = {row.state.preview.bundle for row in sessions if row.state.preview is not None}
            bundles |= {bundle for job in jobs if isinstance(bundle := job.spec.get("bundle"), str)}
            kept = {bundle_prefix(user_id, bundle) for bundle in bundles}
            for job in jobs:
                kept |= {chunk.key.rpartition("/")[0] for chunk in await self._store.chunks(job.id)}
            self._kept = {user_id: kept}
        return self._kept[user_id]


def _last(found: Iterable[Stored]) -> datetime:
    return max(stored.at for stored in found)
