"""Taking away everything that is a deleted session's, in an order that can be cut off anywhere and gone on with.

A session that was made of another one shares what the two name alike: manifests, uploaded files, finished renders.
Those go with whoever names them last.

The session's row is closed first, and its rows go last: until then they say what else has to go. So a crash midway
leaves a closed session, which nobody sees, and which the janitor finishes.

What is stored by its content is shared between a user's sessions, and goes under a lock that keeps everybody else from
beginning to use it (`state/content.py`). Bundles, and the units rendered from them, go when no job of another session
names them, and nobody came to use them since this began: whoever stores one that is there touches it. Where another
session is at work, and so about to name what cannot be known yet, they are left to the sweep. Blobs (the files of
checkpoints) go when no other session holds them (`state/holdings.py`); bundles that no job was ever made of stay until
the user's last session is deleted, or the sweep finds them unused.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from datetime import datetime

from koda_ray.sandbox.base import SandboxProvider
from koda_ray.state.content import CONTENT_LEASE, after_removal
from koda_ray.state.keys import bundle_key, bundle_prefix, render_prefix, session_prefix, shared_prefixes
from koda_ray.state.locks import holding
from koda_ray.state.records import OWED_STATUSES, JobRecord, SessionRecord, maker_of
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store
from koda_ray.types import now

__all__ = [
    "Removal",
    "each_job",
    "forget_absent",
    "remove_asset",
    "remove_final",
    "remove_render",
    "remove_unneeded",
    "results_of",
]

_MANY = 10_000
_MOST_AT_ONCE = 500


def results_of(job: JobRecord) -> set[str]:
    """Return under which prefixes a job's results lie: its own, and that of the job whose video it shows."""
    return {render_prefix(job.user_id, each) for each in (job.id, maker_of(job.result) or job.id)}


async def each_job(store: Store, user_id: str) -> AsyncGenerator[JobRecord]:
    """Go through all jobs of a user, in no order, with one piece of them read at a time.

    Pieces are found by ids: in the order of time each would sort all of the jobs.
    """
    ids = await store.job_ids(user_id)
    for start in range(0, len(ids), _MOST_AT_ONCE):
        for job in await store.list_jobs(ids=ids[start : start + _MOST_AT_ONCE]):
            yield job


async def remove_render(job: JobRecord, *, store: Store, storage: Storage) -> None:
    """Remove a page render that nobody works on any more: its files, then its row. May be called again.

    Units and bundle are other renders' as well: they go when nobody has used them for a while.

    Raises:
        KodaError: Something could not be removed; the row is still there, and calling again goes on.
    """
    await storage.delete_prefix(render_prefix(job.user_id, job.id))
    await store.delete_job(job.id, user_id=job.user_id)


async def remove_final(job: JobRecord, *, store: Store, storage: Storage) -> bool:
    """Remove a session's final video that nobody works on any more: its row, then its files.

    The row goes first, and not amid a fork of the session (`Store.delete_job`): what no row shows from then on, no
    session that is made of this one can come to show, so that files stay which another session shows by then. What
    this is cut off before, the sweep finds: results without a row.

    Returns:
        Whether it was removed: not where it is gone already, or where somebody works on it again.

    Raises:
        KodaError: Something could not be removed.
    """
    if not await store.delete_job(job.id, user_id=job.user_id, unless=OWED_STATUSES):
        return False
    for made in {job.id, maker_of(job.result) or job.id}:
        if not await store.job_ids(job.user_id, showing=made):
            await storage.delete_prefix(render_prefix(job.user_id, made))
    return True


async def remove_asset(asset_id: str, user_id: str, *, store: Store, storage: Storage) -> None:
    """Remove an uploaded file that no session has: its row, then its bytes, which the sweep finds if this is cut off.

    Raises:
        NotFound: There is no such file of this user.
        Conflict: A session has it.
    """
    removed = await store.remove_asset(asset_id, user_id=user_id)
    if removed.key not in await store.asset_keys(user_id):
        await storage.delete(removed.key)


async def forget_absent(user_id: str, key: str, *, store: Store, storage: Storage) -> None:
    """Count an object no more, where it is not there any more."""
    if not await storage.exists(key):
        await store.forget(user_id, [key])


async def remove_unneeded(user_id: str, holder: str, *, store: Store, storage: Storage) -> list[str]:
    """Remove the files of checkpoints that no session of a user's needs, once a holder needs nothing any more.

    Returns:
        Their keys.
    """
    marked = await store.let_go(user_id, holder=holder)
    for start in range(0, len(marked), _MOST_AT_ONCE):  # a piece after the other: whoever waits for one waits less
        part = marked[start : start + _MOST_AT_ONCE]
        await storage.delete_many(part)
        await store.forget(user_id, part)
    return marked


class Removal:
    """Removes what a closed session left.

    Args:
        store: Its rows.
        storage: Its files.
        sandboxes: Its sandboxes.
    """

    def __init__(self, *, store: Store, storage: Storage, sandboxes: SandboxProvider) -> None:
        self._store = store
        self._storage = storage
        self._sandboxes = sandboxes

    async def finish(self, closed: SessionRecord) -> None:
        """Remove everything of a closed session whose process has ended. May be called again.

        Raises:
            KodaError: Something could not be removed; the rows are still there, and calling again goes on.
        """
        for box in await self._store.sandboxes(session_id=closed.id, live=False):
            await self._sandboxes.destroy(box.id)
        await self._renders(closed)
        named = await self._store.named_keys(closed.id)
        own = session_prefix(closed.user_id, closed.project_id, closed.id)
        shared = {key for key, is_shared in named.items() if is_shared}
        lying = [stored.key for stored in await self._storage.look_below(own) if stored.key not in shared]
        await self._storage.delete_many(key for key in named.keys() - shared if not key.startswith(f"{own}/"))
        if any(key.startswith(f"{own}/") for key in shared):
            await self._storage.delete_many(lying)
        else:
            await self._storage.delete_prefix(own)
        await self._store.forget(closed.user_id, lying)
        await remove_unneeded(closed.user_id, closed.id, store=self._store, storage=self._storage)
        await self._last(closed)
        await self._store.delete_session(closed.id, user_id=closed.user_id)

    async def _last(self, closed: SessionRecord) -> None:
        """Remove what the user stored by its content, where nobody works with it, and have nobody begin meanwhile."""
        lock = await after_removal(
            lambda: self._store.take_content(closed.user_id, holder=closed.id, lease_until=now() + CONTENT_LEASE)
        )
        if lock is None:
            return
        async with holding(self._store, lock, lease_s=CONTENT_LEASE.total_seconds()) as held:
            for prefix in shared_prefixes(closed.user_id):
                for folder in await self._storage.folders(prefix):  # a piece after the other: a lost lock is seen soon
                    held.check()
                    await self._storage.delete_prefix(f"{prefix}/{folder}")
                held.check()
                await self._storage.delete_prefix(prefix)
            held.check()
            await self._store.forget(closed.user_id, None)

    async def _renders(self, closed: SessionRecord) -> None:
        """Remove its jobs' results, and what only they are made of."""
        began, shown = now(), None
        for job in await self._store.list_jobs(session_id=closed.id):
            if shown is None:  # once: what nobody else shows now, a fork cannot come to show
                shown = await self._shown(closed.user_id)
            for prefix in results_of(job) - shown:
                await self._storage.delete_prefix(prefix)
            if isinstance(bundle := job.spec.get("bundle"), str):
                units = {chunk.key.rpartition("/")[0] for chunk in await self._store.chunks(job.id)}
                await self._bundle(
                    closed, bundle, (*sorted(units), bundle_prefix(closed.user_id, bundle)), before=began
                )

    async def _bundle(self, closed: SessionRecord, bundle: str, prefixes: Iterable[str], *, before: datetime) -> None:
        """Remove what lies below some prefixes of a bundle that nobody else needs, where nobody used it since then."""
        lock = await after_removal(
            lambda: self._store.take_bundle(closed.user_id, bundle, holder=closed.id, lease_until=now() + CONTENT_LEASE)
        )
        if lock is None:
            return
        async with holding(self._store, lock, lease_s=CONTENT_LEASE.total_seconds()) as held:
            gone: list[str] = []
            for prefix in prefixes:
                found = await self._storage.look_below(prefix)
                if all(stored.at < before for stored in found):
                    held.check()
                    await self._storage.delete_prefix(prefix)
                    gone += [stored.key for stored in found]
            await self._store.forget(closed.user_id, gone)  # what this is cut off before, the sweep finds
            key = bundle_key(closed.user_id, bundle)
            await forget_absent(closed.user_id, key, store=self._store, storage=self._storage)

    async def _shown(self, user_id: str) -> set[str]:
        """Return the results of the user's jobs that stay."""
        leaving = {row.id for row in await self._store.closed_sessions(limit=_MANY)}
        shown: set[str] = set()
        async for job in each_job(self._store, user_id):
            if job.session_id not in leaving:
                shown |= results_of(job)
        return shown
