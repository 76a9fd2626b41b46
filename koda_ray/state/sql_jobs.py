"""Render jobs and their units on the SQL database, under a fence of their own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    type_coerce,
    update,
)

from koda_ray.errors import Conflict
from koda_ray.events import Envelope, NewEvent
from koda_ray.state import schema
from koda_ray.state.charges import ChargeEntry
from koda_ray.state.content import after_removal
from koda_ray.state.database import Database
from koda_ray.state.keys import render_prefix
from koda_ray.state.notify import Notifier
from koda_ray.state.records import (
    OWED_STATUSES,
    PAGE_RENDERS,
    VIDEO_SWEPT,
    ChunkRecord,
    JobRecord,
    JobStatus,
    RenderQuota,
    RendersSought,
    copies_of,
    maker_of,
    stored_units,
)
from koda_ray.state.refusals import check_renders, no_such
from koda_ray.state.rows import columns, number, record
from koda_ray.state.sql_accounts import count_stored, ensure_project
from koda_ray.state.sql_charges import close_all_charges, close_charges, enter_charges, remove_charges
from koda_ray.state.sql_content import may_begin, take_turn
from koda_ray.state.sql_holdings import hold_stored
from koda_ray.state.sql_inbox import queued_video_s
from koda_ray.state.sql_parts import add_events, fenced
from koda_ray.types import now

__all__ = ["SqlJobs", "leave_results", "put_chunks", "put_job", "renders_in_turn"]

_J = schema.jobs.c
_L = schema.locks.c
_S = schema.sessions.c
_ROOM = "renders"
"""The row of `locks` that whoever counts renders holds meanwhile."""
_RESULT = type_coerce(_J.result, Text)
"""A result as it is stored: JSON without spaces, in which a name with its quotes is no part of any text."""
_IS_SWEPT = f'"{VIDEO_SWEPT}":true'
_IS_OWN = _RESULT.contains(literal("/") + _J.id + literal("/"))
"""A copy's result names another job's folder, and nowhere its own."""
_NEVER_CHANGED = ("id", "user_id", "project_id", "session_id", "kind", "created_at", "epoch", "seq")


class SqlJobs:
    """The part of `SqlStore` that keeps render jobs."""

    _database: Database
    _notifier: Notifier

    async def create_job(self, job: JobRecord, *, quota: RenderQuota | None = None) -> JobRecord:
        """Insert a job, or return the row that is there; NotFound where that is another user's."""
        (row,) = await after_removal(
            lambda: self._database.write(lambda connection: self._put_jobs(connection, [job], quota))
        )
        return row

    async def create_jobs(self, jobs: Sequence[JobRecord], *, quota: RenderQuota | None = None) -> list[JobRecord]:
        """Insert jobs, all or none, or return the rows that are there; Conflict where one is of something else."""

        def work(connection: Connection) -> list[JobRecord]:
            rows = self._put_jobs(connection, jobs, quota)
            for given, row in zip(jobs, rows, strict=True):
                if any(row.spec.get(name) != value for name, value in given.spec.items()):
                    raise Conflict(f"job {row.id} was made for something else; make it under another id")
            return rows

        return await after_removal(lambda: self._database.write(work)) if jobs else []

    def _put_jobs(
        self, connection: Connection, jobs: Sequence[JobRecord], quota: RenderQuota | None
    ) -> list[JobRecord]:
        for user_id, project_id in {(job.user_id, job.project_id) for job in jobs}:
            ensure_project(self._database, connection, user_id, project_id, project_id)
            may_begin(connection, user_id)
        user_id = jobs[0].user_id
        same = select(func.count()).where(_J.id.in_([job.id for job in jobs]))
        are_there = quota is not None and connection.execute(same).scalar_one() == len(jobs)
        values = [columns(job) | {"seq": 0} for job in jobs]
        connection.execute(self._database.insert(schema.jobs).on_conflict_do_nothing(), values)
        found: list[JobRecord] = []
        for job in jobs:
            there = select(schema.jobs).where(_J.id == job.id, _J.user_id == job.user_id)
            row = connection.execute(there).one_or_none()
            if row is None:
                raise no_such("job", job.id)
            found.append(record(JobRecord, row))
        if quota is not None and not are_there:
            check_renders(quota, _taken(connection, user_id))
        return found

    async def get_job(self, job_id: str, *, user_id: str | None = None) -> JobRecord:
        """Read a job; NotFound when it is missing or another user's."""
        query = select(schema.jobs).where(_J.id == job_id)
        if user_id is not None:
            query = query.where(_J.user_id == user_id)
        found = await self._database.records(JobRecord, query)
        if not found:
            raise no_such("job", job_id)
        return found[0]

    async def list_jobs(
        self,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        ids: Collection[str] | None = None,
        limit: int | None = None,
        before: tuple[datetime, str] | None = None,
    ) -> list[JobRecord]:
        """Read jobs, newest first; see `Store.list_jobs`."""
        query = select(schema.jobs)
        if session_id is not None:
            query = query.where(_J.session_id == session_id)
        if user_id is not None:
            query = query.where(_J.user_id == user_id)
        if ids is not None:
            query = query.where(_J.id.in_(ids))
        if before is not None:
            query = query.where(_is_after(before))
        return await self._database.records(JobRecord, query.order_by(_J.created_at.desc(), _J.id.desc()).limit(limit))

    async def job_ids(
        self,
        user_id: str,
        *,
        among: Collection[str] | None = None,
        showing: str | None = None,
        unswept: bool = False,
    ) -> list[str]:
        """Read the ids of a user's jobs, in no order; see `Store.job_ids`."""
        query = select(_J.id).where(_J.user_id == user_id)
        if among is not None:
            query = query.where(_J.id.in_(among))
        if showing is not None:
            video = f'"videoKey":"{render_prefix(user_id, showing)}/'
            query = query.where(or_(_J.id == showing, _RESULT.contains(video, autoescape=True)))
        if unswept:
            query = query.where(~func.coalesce(_RESULT, "").contains(_IS_SWEPT))
        return await self._database.read(lambda connection: list(connection.execute(query).scalars()))

    async def copies(self, user_id: str) -> dict[str, list[str]]:
        """Read which of a user's jobs show what another one made; see `Store.copies`."""
        rows = await self._database.read(lambda connection: connection.execute(_copies(user_id)).all())
        return copies_of((row.id, row.result) for row in rows)

    async def list_renders(
        self,
        user_id: str,
        sought: RendersSought = PAGE_RENDERS,
        *,
        limit: int = 50,
        before: tuple[datetime, str] | None = None,
    ) -> list[JobRecord]:
        """Read a user's renders, newest first; their ids do not sort by time, so a page begins at both."""
        query = select(schema.jobs).where(_J.user_id == user_id, *_sought(sought))
        if before is not None:
            query = query.where(_is_after(before))
        query = query.order_by(_J.created_at.desc(), _J.id.desc()).limit(limit)
        return await self._database.records(JobRecord, query)

    async def count_renders(self, user_id: str, *, id_prefix: str = "") -> dict[JobStatus, int]:
        """Count a user's page renders by state; states without one are left out."""
        query = select(_J.status, func.count()).where(*_page_renders(user_id, id_prefix)).group_by(_J.status)
        return {row[0]: row[1] for row in await self._database.read(lambda connection: connection.execute(query).all())}

    async def admit_job(self, job_id: str, *, most: int, lease_until: datetime) -> JobRecord | None:
        """Let a page render begin, if fewer than ``most`` are under way; one is looked at at a time.

        Raises:
            NotFound: There is no such job.
            Conflict: It is over.
        """
        row = self._database.insert(schema.locks).values(name=_ROOM, holder="", epoch=0).on_conflict_do_nothing()
        turn = select(_L.name).where(_L.name == _ROOM).with_for_update()

        def work(connection: Connection) -> JobRecord | None:
            connection.execute(row)
            connection.execute(turn)  # of two who look at once the second waits for the first, and counts its row
            at = now()
            under_way = (_J.status == "running") & (_J.lease_until > at)
            mine = connection.execute(select(_J.status, under_way).where(_J.id == job_id)).one_or_none()
            if mine is None or mine[0] not in OWED_STATUSES:
                raise _over(connection, job_id)
            count = select(func.count()).select_from(schema.jobs).where(under_way, _J.session_id.is_(None))
            if mine[1] or connection.execute(count).scalar_one() >= most:
                return None
            take = update(schema.jobs).where(_J.id == job_id)
            taken = take.values(status="running", lease_until=lease_until, updated_at=at).returning(schema.jobs)
            return record(JobRecord, connection.execute(taken).one())

        return await self._database.write(work)

    async def claim_job(self, job_id: str, *, lease_until: datetime) -> JobRecord:
        """Take a job: bump its epoch and set status running.

        Raises:
            NotFound: There is no such job.
            Conflict: It is over; there is nothing to take.
        """
        statement = (
            update(schema.jobs)
            .where(_J.id == job_id, _J.status.in_(OWED_STATUSES))
            .values(epoch=_J.epoch + 1, status="running", lease_until=lease_until, updated_at=now())
            .returning(schema.jobs)
        )

        def work(connection: Connection) -> JobRecord:
            row = connection.execute(statement).one_or_none()
            if row is None:
                raise _over(connection, job_id)
            return record(JobRecord, row)

        return await self._database.write(work)

    async def cancel_job(self, job_id: str, *, user_id: str) -> JobRecord:
        """Cancel a job and fence whoever works on it; see `Store.cancel_job`."""
        own = _J.session_id.is_(None)
        at_rest = select(schema.sessions.c.id).where(schema.sessions.c.owes.is_(None))
        statement = (
            update(schema.jobs)
            .where(_J.id == job_id, _J.user_id == user_id, _J.status.in_(OWED_STATUSES))
            .where(or_(own, _J.session_id.in_(at_rest)))
            .values(epoch=case((own, _J.epoch + 1), else_=_J.epoch))
            .values(status="cancelled", lease_until=None, updated_at=now())
        )

        def work(connection: Connection) -> None:
            if connection.execute(statement).rowcount:
                close_charges(self._database, connection, schema.charges.c.work_id == job_id)

        await self._database.write(work)
        return await self.get_job(job_id, user_id=user_id)

    async def cancel_renders(self, user_id: str, *, id_prefix: str, events: Sequence[NewEvent] = ()) -> list[str]:
        """Cancel a user's page renders whose id begins so, all at once; see `Store.cancel_renders`."""
        which = (*_page_renders(user_id, id_prefix), _J.status.in_(OWED_STATUSES))
        query = select(_J.id, _J.status).where(*which).order_by(_J.id).with_for_update()
        over = update(schema.jobs).values(status="cancelled", lease_until=None, updated_at=now())
        over = over.values(epoch=_J.epoch + 1, seq=_J.seq + len(events)).returning(_J.id, _J.seq, _J.epoch)

        def work(connection: Connection) -> tuple[list[str], list[str]]:
            before = {row.id: row.status for row in connection.execute(query)}
            if before:
                close_all_charges(self._database, connection, user_id, before)
                ended = connection.execute(over.where(_J.id.in_(before))).all()
                told = (each for row in ended for each in number(row.id, row.seq, row.epoch, list(events)))
                add_events(connection, user_id, list(told))
            return list(before), [job_id for job_id, status in before.items() if status == "running"]

        _, under_way = await self._database.write(work, lambda done: self._notifier.notify_all(done[0]))
        return under_way

    async def note_stored(self, job: JobRecord, stored_bytes: int) -> None:
        """Note how much a job's files take; nothing happens where its row is another than this by now."""
        same = (_J.id == job.id, _J.epoch == job.epoch, _J.status == job.status, _J.updated_at == job.updated_at)
        statement = update(schema.jobs).where(*same).values(stored_bytes=stored_bytes)
        await self._database.write(lambda connection: connection.execute(statement))

    async def note_swept(self, job_ids: Collection[str]) -> None:
        """Note that the video of jobs was removed, and nothing else; see `Store.note_swept`."""
        query = select(_J.id, _J.result).where(_J.id.in_(job_ids)).order_by(_J.id).with_for_update()

        def work(connection: Connection) -> None:
            for row in connection.execute(query).all():
                swept = update(schema.jobs).where(_J.id == row.id)
                connection.execute(swept.values(result={**(row.result or {}), VIDEO_SWEPT: True}))

        await self._database.write(work)

    async def update_job(
        self,
        job: JobRecord,
        *,
        chunks: Sequence[ChunkRecord] = (),
        events: Sequence[NewEvent] = (),
        charges: Sequence[ChargeEntry] = (),
    ) -> None:
        """Write a job's row under its own epoch, with chunks, events of its own stream and charges."""
        values = {name: value for name, value in columns(job).items() if name not in _NEVER_CHANGED}
        values["seq"] = _J.seq + len(events)
        statement = update(schema.jobs).where(_J.id == job.id, _J.epoch == job.epoch).values(values)

        def work(connection: Connection) -> None:
            if chunks:
                take_turn(connection, job.user_id)
            row = connection.execute(statement.returning(_J.seq)).one_or_none()
            if row is None:
                raise fenced(connection, schema.jobs, job.id, job.epoch)
            put_chunks(self._database, connection, chunks, user_id=job.user_id)
            told, seq = list(events), row.seq
            if charges:
                told += enter_charges(
                    self._database, connection, charges, work_id=job.id, user_id=job.user_id, epoch=job.epoch
                )
                if len(told) > len(events):
                    seq += len(told) - len(events)
                    connection.execute(update(schema.jobs).where(_J.id == job.id).values(seq=seq))
            add_events(connection, job.user_id, number(job.id, seq, job.epoch, told))

        await self._database.write(work, lambda _: self._notifier.notify(job.id) if events or charges else None)

    async def delete_job(self, job_id: str, *, user_id: str, unless: Collection[JobStatus] = ()) -> bool:
        """Remove a job with its chunks and events; see `Store.delete_job`."""
        which = (_J.id == job_id, _J.user_id == user_id)
        row = select(_J.id).where(*which, _J.status.not_in(unless)).with_for_update()
        of = select(_J.session_id).where(*which)
        # what a fork of the session locks too, before it reads the jobs
        lock = update(schema.sessions).where(_S.id.in_(of)).values(rev=_S.rev)

        def work(connection: Connection) -> bool:
            take_turn(connection, user_id)  # before the session's row, as whoever removes that does
            connection.execute(lock)
            if connection.execute(row).first() is None:
                return False
            leave_results(connection, user_id, _J.id == job_id)
            remove_charges(self._database, connection, user_id, job_id)
            connection.execute(delete(schema.events).where(schema.events.c.stream_id == job_id))
            connection.execute(delete(schema.chunks).where(schema.chunks.c.job_id == job_id))
            connection.execute(delete(schema.jobs).where(*which))
            return True

        return await self._database.write(work, lambda removed: self._notifier.notify(job_id) if removed else None)

    async def chunks(self, job_id: str, *, first: int = 0) -> list[ChunkRecord]:
        """Read a job's chunk rows by unit, from the first that is wanted on."""
        table = schema.chunks.c
        query = select(schema.chunks).where(table.job_id == job_id, table.unit >= first).order_by(table.unit)
        return await self._database.records(ChunkRecord, query)

    async def append_job_events(self, job_id: str, epoch: int, events: Sequence[NewEvent]) -> list[Envelope]:
        """Append to a job's own stream under the job's fence."""
        statement = (
            update(schema.jobs)
            .where(_J.id == job_id, _J.epoch == epoch)
            .values(seq=_J.seq + len(events))
            .returning(_J.seq, _J.user_id)
        )

        def work(connection: Connection) -> list[Envelope]:
            row = connection.execute(statement).one_or_none()
            if row is None:
                raise fenced(connection, schema.jobs, job_id, epoch)
            made = number(job_id, row.seq, epoch, list(events))
            add_events(connection, row.user_id, made)
            return made

        return await self._database.write(work, lambda _: self._notifier.notify(job_id))


def leave_results(connection: Connection, user_id: str, leaving: ColumnElement[bool]) -> None:
    """Have what jobs that are about to go made count for a copy that shows it still, where there is one.

    The user's turn is this transaction's: of two that show one video only one goes at a time.
    """
    going = select(_J.result, _J.stored_bytes).where(leaving, _J.user_id == user_id, _J.stored_bytes > 0)
    left = {maker_of(row.result): int(row.stored_bytes) for row in connection.execute(going)}
    left.pop(None, None)
    if not left:
        return
    for row in connection.execute(_copies(user_id).where(~leaving)).all():
        if size := left.pop(maker_of(row.result), 0):
            heir = update(schema.jobs).where(_J.id == row.id)
            connection.execute(heir.values(stored_bytes=_J.stored_bytes + size))


def _copies(user_id: str) -> Select[Any, Any]:
    """Select what may be copies, in the order of their ids: `maker_of` says of what."""
    of_sessions = select(_J.id, _J.result).where(_J.user_id == user_id, _J.session_id.is_not(None))
    return of_sessions.where(~_IS_OWN).order_by(_J.id)


def renders_in_turn(at: datetime) -> Select[Any, Any, Any, Any]:
    """Select renders of people's own that nobody holds, by turns: each user's first one, then the second ones."""
    unheld = or_(_J.lease_until.is_(None), _J.lease_until < at)
    # what is under way counts as a turn that was had
    order = (case((_J.status == "running", 0), else_=1), _J.updated_at, _J.id)
    turn = func.row_number().over(partition_by=_J.user_id, order_by=order).label("turn")
    owed = select(_J.id, _J.user_id, _J.epoch, _J.updated_at, unheld.label("unheld"), turn)
    rows = owed.where(_J.status.in_(OWED_STATUSES), _J.session_id.is_(None)).subquery().c
    chosen = select(rows.id, rows.user_id, rows.epoch, rows.updated_at).where(rows.unheld)
    return chosen.order_by(rows.turn, rows.updated_at, rows.id)


def _taken(connection: Connection, user_id: str) -> RenderQuota:
    """Count what a user's renders take."""
    renders = select(func.count()).select_from(schema.jobs)
    renders = renders.where(*_page_renders(user_id, ""), _J.status.in_(OWED_STATUSES))
    return RenderQuota(
        renders=connection.execute(renders).scalar_one(),
        video_s=queued_video_s(connection, user_id),
        stored_bytes=count_stored(connection, user_id),
    )


def _is_after(place: tuple[datetime, str]) -> ColumnElement[bool]:
    """Whether a job comes after a place in a list, newest first."""
    at, job_id = place
    return or_(_J.created_at < at, and_(_J.created_at == at, _J.id < job_id))


def _page_renders(user_id: str, id_prefix: str) -> list[ColumnElement[bool]]:
    """Return what is true of a user's page renders whose id begins so."""
    return [_J.user_id == user_id, *_sought(RendersSought(id_prefix=id_prefix))]


def _sought(sought: RendersSought) -> list[ColumnElement[bool]]:
    """Return what is true of the renders that somebody looks for: none is of a session that its user does not see."""
    seen = select(schema.sessions.c.id).where(schema.sessions.c.id == _J.session_id, schema.IS_SEEN)
    return [
        or_(_J.session_id.is_(None), seen.exists()),
        *([_J.kind.in_(sought.kinds)] if sought.kinds else []),
        *([_J.session_id == sought.session_id] if sought.session_id is not None else []),
        *([_J.status.in_(sought.statuses)] if sought.statuses else []),
        *([_J.id.startswith(sought.id_prefix, autoescape=True)] if sought.id_prefix else []),
        *([_J.updated_at >= sought.since] if sought.since is not None else []),
        *([_J.updated_at < sought.until] if sought.until is not None else []),
    ]


def put_job(database: Database, connection: Connection, job: JobRecord) -> None:
    """Insert a job, or replace the row of the same epoch.

    A queued job whose row has been claimed since is left alone: the caller wants it to exist, and it does.

    Raises:
        Fenced: The row has been claimed since the caller read it.
    """
    insert = database.insert(schema.jobs).values(columns(job) | {"seq": 0})
    statement = insert.on_conflict_do_update(
        index_elements=["id"],
        set_={name: insert.excluded[name] for name in columns(job) if name not in _NEVER_CHANGED},
        where=(_J.epoch == insert.excluded.epoch) & (_J.user_id == insert.excluded.user_id),
    )
    if connection.execute(statement.returning(_J.id)).one_or_none() is None and job.status != "queued":
        raise fenced(connection, schema.jobs, job.id, job.epoch)


def put_chunks(database: Database, connection: Connection, chunks: Sequence[ChunkRecord], *, user_id: str) -> None:
    """Insert or replace units' rows, and count what they name; the user's turn was taken before any other row."""
    if chunks:
        connection.execute(database.upsert(schema.chunks), [columns(chunk) for chunk in chunks])
        hold_stored(database, connection, user_id, stored_units(chunks))


def _over(connection: Connection, job_id: str) -> Exception:
    status = connection.execute(select(_J.status).where(_J.id == job_id)).scalar_one_or_none()
    if status is None:
        return no_such("job", job_id)
    return Conflict(f"job {job_id} is {status}: it cannot be taken again")
