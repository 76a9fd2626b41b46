"""What a user has stored is counted before it is stored (`state.holdings`); here it is compared with what is there.

The sweep goes round everything that is stored anyway, and has each folder that it lists compared: what is there and was
not counted is counted from then on (it is from before such things were, or of a process that was cut off), and what was
counted and is not there counts no more. It may be on its way there, so two rounds in a row have to miss it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection

from koda_ray.errors import InvalidPath, KodaError, NotFound
from koda_ray.logs import get_logger
from koda_ray.metrics import UNREAD, MetricsSink
from koda_ray.state import checkpoint
from koda_ray.state.keys import (
    ContentKind,
    content_prefix,
    pictures_prefix,
    projects_prefix,
    render_prefix,
    sessions_prefix,
)
from koda_ray.state.records import OWED_STATUSES, CheckpointRecord, JobRecord
from koda_ray.state.storage import Storage, Stored
from koda_ray.state.store import Store

__all__ = ["LISTING", "Counting", "leave_for_next"]

LISTING = 20
"""What a listing costs, in objects; a removal costs the same, and a row one."""
_SOME = 100
_log = get_logger()


def leave_for_next(what: str, error: KodaError) -> None:
    """Leave something for the next round: the others go on."""
    _log.warning("could not sweep", what=what, code=error.code, error=error.message)


class Counting:
    """Puts right what is counted, one round after the other; it costs what it yields or returns.

    Args:
        store: What is counted.
        storage: What is there.
        metrics: Where it notes how much could not be read.
    """

    def __init__(self, *, store: Store, storage: Storage, metrics: MetricsSink) -> None:
        self._store = store
        self._storage = storage
        self._metrics = metrics
        self._unread: Collection[str] = ()
        self._missing: set[str] = set()
        self._missed: set[str] = set()
        self._pictures_counted = False
        self._all_pictures = True
        self._copies: tuple[str, dict[str, list[str]]] | None = None

    def begin(self) -> None:
        """Begin a round through everything."""
        self._missed, self._all_pictures, self._copies = set(), True, None

    def end(self) -> None:
        """End a round that went through everything."""
        self._missing, self._missed = self._missed, set()
        self._pictures_counted = self._all_pictures

    async def checkpoints(self) -> AsyncGenerator[int]:
        """Count what checkpoints hold that are from before that was counted.

        One whose list cannot be read keeps nobody's deletions from freeing anything for long: a list that is lost is
        known to be so at once, another one is looked at once more in the next round.
        """
        after, unread = "", dict[str, CheckpointRecord]()
        while found := await self._store.unheld(after=after, limit=_SOME):
            after = found[-1].id
            for pointer in found:
                key, session_id = pointer.manifest_key, pointer.session_id
                try:
                    manifest = await checkpoint.load(self._storage, key)
                    sizes = checkpoint.objects_of(manifest, await self._storage.size(key))
                    await self._store.hold(pointer.user_id, sizes, holder=session_id, checkpoint=pointer.id)
                except KodaError as error:
                    leave_for_next(key, error)
                    unread[pointer.id] = pointer
                    try:
                        await self._without(pointer, is_lost=not error.retryable)
                    except KodaError as another:  # its session is gone, or the database away
                        leave_for_next(key, another)
                yield 2 * LISTING
        self._unread = unread.keys()
        self._metrics.note(UNREAD, len(unread))

    async def _without(self, pointer: CheckpointRecord, *, is_lost: bool) -> None:
        """Do without the list of a checkpoint: its session keeps what it may name, and others' deletions free the rest.

        What is known of its session is kept as it is. Where its list may come back, so is all else that its user has.
        """
        if is_lost:
            await self._store.hold(pointer.user_id, {}, holder=pointer.session_id, checkpoint=pointer.id)
        elif pointer.id in self._unread:
            await self._store.hold_all(pointer.user_id, holder=pointer.session_id, checkpoint=pointer.id)

    async def shard(
        self, user_id: str, kind: ContentKind, prefix: str, found: Collection[Stored], *, going: Collection[str]
    ) -> int:
        """Compare a folder of units or bundles.

        Args:
            user_id: Whose it is.
            kind: Of which.
            prefix: The folder.
            found: All that is in it.
            going: Folders in it that are about to be removed.
        """
        if kind == "films":
            return 0
        there, cost, after = {each.key: each.size_bytes for each in found}, 0, ""
        uncounted = {key for key in there if key.endswith("/video") and key.rpartition("/")[0] not in going}
        while keys := await self._store.counted(user_id, below=prefix, after=after):
            after, cost = keys[-1], cost + LISTING
            uncounted.difference_update(keys)
            await self._lost(user_id, [key for key in keys if key not in there])
        if kind == "units" and uncounted:
            await self._store.hold(user_id, {key: there[key] for key in uncounted})
        return cost + LISTING

    async def others(self, user_id: str, kind: ContentKind, shards: Collection[str]) -> AsyncGenerator[int]:
        """Compare the folders of units or bundles that are not there at all.

        Args:
            user_id: Whose they are.
            kind: Of which.
            shards: The names of those that are.
        """
        if kind == "films":
            return
        below, after = content_prefix(user_id, kind), ""
        while keys := await self._store.counted(user_id, below=below, after=after):
            after = keys[-1]
            names = ((key, key.removeprefix(f"{below}/").partition("/")[0]) for key in keys)
            await self._lost(user_id, [key for key, name in names if name not in shards])
            yield LISTING

    async def _lost(self, user_id: str, keys: Collection[str]) -> None:
        """Note what was not found; what the round before did not find either counts no more."""
        gone = [key for key in keys if key in self._missing and not await self._storage.exists(key)]
        self._missed.update(keys)
        if gone:
            self._missed.difference_update(gone)
            await self._store.forget(user_id, gone)
            _log.info("counted and never stored", user_id=user_id, count=len(gone))

    async def pictures(self, user_id: str) -> AsyncGenerator[int]:
        """Count pictures that agents took before these were counted: once, for whoever takes one now counts it."""
        if self._pictures_counted:
            return
        for project in await self._storage.folders(projects_prefix(user_id)):
            yield LISTING
            try:
                sessions = await self._storage.folders(sessions_prefix(user_id, project))
            except InvalidPath:  # a folder that is not ours
                continue
            for session_id in sessions:
                try:
                    yield await self._pictures_of(user_id, project, session_id)
                except (InvalidPath, NotFound):  # the session is deleted, and these with it
                    continue
                except KodaError as error:
                    leave_for_next(f"the pictures of {session_id}", error)
                    self._all_pictures = False

    async def _pictures_of(self, user_id: str, project: str, session_id: str) -> int:
        prefix = pictures_prefix(user_id, project, session_id)
        found = await self._storage.look_below(prefix)
        sizes, after = {each.key: each.size_bytes for each in found}, ""
        while found and (keys := await self._store.counted(user_id, below=prefix, after=after)):
            after = keys[-1]
            for key in keys:
                sizes.pop(key, None)
        if sizes:
            await self._store.hold(user_id, sizes, holder=session_id)
        return LISTING + len(found)

    async def left(self, user_id: str, job_id: str) -> int:
        """Count what a job made whose row is gone, with one of those that show it: those gone before that was done.

        Who shows what is looked up once in a round, and again before something is written: a copy that was made since
        may have what this took by then.
        """
        if self._copies is None or self._copies[0] != user_id:
            self._copies = (user_id, await self._store.copies(user_id))
        copies = await self._store.list_jobs(ids=self._copies[1].get(job_id, ()))
        if not copies or any(copy.stored_bytes for copy in copies):
            return LISTING
        found = await self._storage.look_below(render_prefix(user_id, job_id))
        if {copy.id for copy in copies} == set(await self._store.job_ids(user_id, showing=job_id)):
            await self._store.note_stored(copies[0], sum(each.size_bytes for each in found))
        return 2 * LISTING

    async def result(self, job: JobRecord) -> int:
        """Count the pictures and reports of a video that was made before these were counted with it."""
        size = (job.result or {}).get("fileSize")
        if job.status in OWED_STATUSES or job.stored_bytes > (size if isinstance(size, int) else 0):
            return 0
        found = await self._storage.look_below(render_prefix(job.user_id, job.id))
        if (taken := sum(each.size_bytes for each in found)) != job.stored_bytes:
            await self._store.note_stored(job, taken)
        return LISTING
