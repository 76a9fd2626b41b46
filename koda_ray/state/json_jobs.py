"""Render jobs and their units in a folder of JSON, under a fence of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from operator import itemgetter
from typing import cast

from pydantic import JsonValue

from koda_ray.errors import Conflict
from koda_ray.events import Envelope, NewEvent
from koda_ray.state.charges import ChargeEntry
from koda_ray.state.content import after_removal
from koda_ray.state.json_accounts import count_stored, ensure_project, is_of_seen
from koda_ray.state.json_charges import close_charges, enter_charges, remove_charges
from koda_ray.state.json_content import may_begin
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_holdings import hold_objects
from koda_ray.state.json_inbox import queued_video_s
from koda_ray.state.json_parts import epoch_of, put_events
from koda_ray.state.json_rows import decode, encode, moment, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
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
from koda_ray.state.refusals import check_renders, no_such, replaced
from koda_ray.state.rows import number
from koda_ray.types import now

__all__ = ["JsonJobs", "leave_results", "put_chunks", "put_job", "remove_job", "renders_in_turn"]

_NEVER_CHANGED = ("id", "user_id", "project_id", "session_id", "kind", "created_at", "epoch", "seq")


class JsonJobs:
    """The part of `JSONStore` that keeps render jobs."""

    _database: JsonDatabase
    _notifier: Notifier

    async def create_job(self, job: JobRecord, *, quota: RenderQuota | None = None) -> JobRecord:
        """Insert a job, or return the row that is there; NotFound where that is another user's."""
        (row,) = await after_removal(lambda: self._database.write(lambda change: _make_all(change, [job], quota)))
        return row

    async def create_jobs(self, jobs: Sequence[JobRecord], *, quota: RenderQuota | None = None) -> list[JobRecord]:
        """Insert jobs, all or none, or return the rows that are there; Conflict where one is of something else."""

        def work(change: Transaction) -> list[JobRecord]:
            rows = _make_all(change, jobs, quota)
            for given, row in zip(jobs, rows, strict=True):
                if any(row.spec.get(name) != value for name, value in given.spec.items()):
                    raise Conflict(f"job {row.id} was made for something else; make it under another id")
            return rows

        return await after_removal(lambda: self._database.write(work)) if jobs else []

    async def get_job(self, job_id: str, *, user_id: str | None = None) -> JobRecord:
        """Read a job; NotFound when it is missing or another user's."""
        return await self._database.read(lambda tables: decode(JobRecord, _job(tables, job_id, user_id)))

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
        cursor = None if before is None else (moment(before[0]), before[1])

        def is_wanted(row: TableRow) -> bool:
            return (
                (session_id is None or row["session_id"] == words(session_id))
                and (user_id is None or row["user_id"] == words(user_id))
                and (ids is None or row["id"] in ids)
                and (cursor is None or _age(row) < cursor)
            )

        return await self._database.read(
            lambda tables: [decode(JobRecord, row) for row in _newest(filter(is_wanted, tables.of("jobs")))[:limit]]
        )

    async def job_ids(
        self,
        user_id: str,
        *,
        among: Collection[str] | None = None,
        showing: str | None = None,
        unswept: bool = False,
    ) -> list[str]:
        """Read the ids of a user's jobs, in no order; see `Store.job_ids`."""
        mine = words(user_id)

        def is_wanted(row: TableRow) -> bool:
            return (
                row["user_id"] == mine
                and (among is None or row["id"] in among)
                and (showing is None or showing in (row["id"], _maker(row)))
                and not (unswept and VIDEO_SWEPT in _result(row))
            )

        return await self._database.read(
            lambda tables: [str(row["id"]) for row in filter(is_wanted, tables.of("jobs"))]
        )

    async def copies(self, user_id: str) -> dict[str, list[str]]:
        """Read which of a user's jobs show what another one made; see `Store.copies`."""
        mine = words(user_id)

        def work(tables: Tables) -> dict[str, list[str]]:
            of_sessions = (row for row in tables.of("jobs") if row["user_id"] == mine and row["session_id"] is not None)
            return copies_of(sorted(((str(row["id"]), _result(row)) for row in of_sessions), key=itemgetter(0)))

        return await self._database.read(work)

    async def list_renders(
        self,
        user_id: str,
        sought: RendersSought = PAGE_RENDERS,
        *,
        limit: int = 50,
        before: tuple[datetime, str] | None = None,
    ) -> list[JobRecord]:
        """Read a user's renders, newest first; their ids do not sort by time, so a page begins at both."""
        cursor = None if before is None else (moment(before[0]), before[1])

        def work(tables: Tables) -> list[JobRecord]:
            found = _newest(row for row in _renders(tables, user_id, sought) if cursor is None or _age(row) < cursor)
            return [decode(JobRecord, row) for row in found[:limit]]

        return await self._database.read(work)

    async def count_renders(self, user_id: str, *, id_prefix: str = "") -> dict[JobStatus, int]:
        """Count a user's page renders by state; states without one are left out."""

        def work(tables: Tables) -> dict[JobStatus, int]:
            return dict(Counter(cast("JobStatus", row["status"]) for row in _page_renders(tables, user_id, id_prefix)))

        return await self._database.read(work)

    async def admit_job(self, job_id: str, *, most: int, lease_until: datetime) -> JobRecord | None:
        """Let a page render begin, if fewer than ``most`` are under way; one is looked at at a time.

        Raises:
            NotFound: There is no such job.
            Conflict: It is over.
        """

        def work(change: Transaction) -> JobRecord | None:
            row, at = _job(change.tables, job_id), moment(now())
            if row["status"] not in OWED_STATUSES:
                raise Conflict(f"job {job_id} is {row['status']}: it cannot be taken again")
            under_way = [
                each for each in change.tables.of("jobs") if each["status"] == "running" and _is_held(each, at)
            ]
            own = [each for each in under_way if each["session_id"] is None]
            if any(each["id"] == row["id"] for each in under_way) or len(own) >= most:
                return None
            taken: TableRow = {"status": "running", "lease_until": moment(lease_until), "updated_at": at}
            change.set("jobs", job_id, taken)
            return decode(JobRecord, _job(change.tables, job_id))

        return await self._database.write(work)

    async def claim_job(self, job_id: str, *, lease_until: datetime) -> JobRecord:
        """Take a job: bump its epoch and set status running.

        Raises:
            NotFound: There is no such job.
            Conflict: It is over; there is nothing to take.
        """

        def work(change: Transaction) -> JobRecord:
            row = _job(change.tables, job_id)
            if row["status"] not in OWED_STATUSES:
                raise Conflict(f"job {job_id} is {row['status']}: it cannot be taken again")
            taken: TableRow = {"epoch": epoch_of(row) + 1, "status": "running", "lease_until": moment(lease_until)}
            change.set("jobs", job_id, {**taken, "updated_at": moment(now())})
            return decode(JobRecord, _job(change.tables, job_id))

        return await self._database.write(work)

    async def cancel_job(self, job_id: str, *, user_id: str) -> JobRecord:
        """Cancel a job and fence whoever works on it; see `Store.cancel_job`."""

        def work(change: Transaction) -> JobRecord:
            row = _job(change.tables, job_id, user_id)
            of = row["session_id"]
            session = None if of is None else change.tables.get("sessions", str(of))
            if row["status"] in OWED_STATUSES and (of is None or (session is not None and session["owes"] is None)):
                over: TableRow = {"epoch": epoch_of(row) + (of is None), "status": "cancelled", "lease_until": None}
                change.set("jobs", job_id, {**over, "updated_at": moment(now())})
                close_charges(change, job_id, lambda _: True)
            return decode(JobRecord, _job(change.tables, job_id))

        return await self._database.write(work)

    async def cancel_renders(self, user_id: str, *, id_prefix: str, events: Sequence[NewEvent] = ()) -> list[str]:
        """Cancel a user's page renders whose id begins so, all at once; see `Store.cancel_renders`."""

        def work(change: Transaction) -> tuple[list[str], list[str]]:
            found = [row for row in _page_renders(change.tables, user_id, id_prefix) if row["status"] in OWED_STATUSES]
            before = {str(row["id"]): row for row in sorted(found, key=lambda row: str(row["id"]))}
            for job_id, row in before.items():
                epoch, seq = epoch_of(row) + 1, cast("int", row["seq"]) + len(events)
                over: TableRow = {"epoch": epoch, "seq": seq, "status": "cancelled", "lease_until": None}
                change.set("jobs", job_id, {**over, "updated_at": moment(now())})
                close_charges(change, job_id, lambda _: True)
                put_events(change, user_id, number(job_id, seq, epoch, list(events)))
            return list(before), [job_id for job_id, row in before.items() if row["status"] == "running"]

        _, under_way = await self._database.write(work, lambda done: self._notifier.notify_all(done[0]))
        return under_way

    async def note_stored(self, job: JobRecord, stored_bytes: int) -> None:
        """Note how much a job's files take; nothing happens where its row is another than this by now."""

        def work(change: Transaction) -> None:
            row = change.tables.get("jobs", job.id)
            known = None if row is None else decode(JobRecord, row)
            if known is not None and (known.epoch, known.status, known.updated_at) == (
                job.epoch, job.status, job.updated_at,
            ):  # fmt: skip
                change.set("jobs", job.id, {"stored_bytes": stored_bytes})

        await self._database.write(work)

    async def note_swept(self, job_ids: Collection[str]) -> None:
        """Note that the video of jobs was removed, and nothing else; see `Store.note_swept`."""

        def work(change: Transaction) -> None:
            for job_id in job_ids:
                if (row := change.tables.get("jobs", job_id)) is not None:
                    change.set("jobs", job_id, {"result": {**_result(row), VIDEO_SWEPT: True}})

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

        def work(change: Transaction) -> None:
            seq, told = _fence(change, job.id, job.epoch), list(events)
            if charges:
                told += enter_charges(change, charges, work_id=job.id, user_id=job.user_id, epoch=job.epoch)
            change.set("jobs", job.id, {**_changing(job), "seq": seq + len(told)})
            put_chunks(change, chunks, user_id=job.user_id)
            put_events(change, job.user_id, number(job.id, seq + len(told), job.epoch, told))

        await self._database.write(work, lambda _: self._notifier.notify(job.id) if events or charges else None)

    async def delete_job(self, job_id: str, *, user_id: str, unless: Collection[JobStatus] = ()) -> bool:
        """Remove a job with its chunks and events; see `Store.delete_job`."""

        def work(change: Transaction) -> bool:
            row = change.tables.get("jobs", job_id)
            if row is None or row["user_id"] != words(user_id) or row["status"] in unless:
                return False
            remove_charges(change, user_id, job_id)
            leave_results(change, [row])
            remove_job(change, job_id)
            return True

        return await self._database.write(work, lambda removed: self._notifier.notify(job_id) if removed else None)

    async def chunks(self, job_id: str, *, first: int = 0) -> list[ChunkRecord]:
        """Read a job's chunk rows by unit, from the first that is wanted on."""

        def work(tables: Tables) -> list[ChunkRecord]:
            rows = sorted(tables.of("chunks", job_id), key=lambda row: cast("int", row["unit"]))
            return [decode(ChunkRecord, row) for row in rows if cast("int", row["unit"]) >= first]

        return await self._database.read(work)

    async def append_job_events(self, job_id: str, epoch: int, events: Sequence[NewEvent]) -> list[Envelope]:
        """Append to a job's own stream under the job's fence."""

        def work(change: Transaction) -> list[Envelope]:
            seq = _fence(change, job_id, epoch) + len(events)
            made = number(job_id, seq, epoch, list(events))
            change.set("jobs", job_id, {"seq": seq})
            put_events(change, str(_job(change.tables, job_id)["user_id"]), made)
            return made

        return await self._database.write(work, lambda _: self._notifier.notify(job_id))


def put_job(change: Transaction, job: JobRecord) -> None:
    """Insert a job, or replace the row of the same epoch.

    A queued job whose row has been claimed since is left alone: the caller wants it to exist, and it does.

    Raises:
        Fenced: The row has been claimed since the caller read it.
    """
    row = change.tables.get("jobs", job.id)
    if row is None:
        change.put("jobs", encode(job, seq=0))
    elif (row["epoch"], row["user_id"]) == (job.epoch, words(job.user_id)):
        change.set("jobs", job.id, _changing(job))
    elif job.status != "queued":
        raise replaced("job", job.id, epoch=job.epoch, current=epoch_of(row))


def put_chunks(change: Transaction, chunks: Sequence[ChunkRecord], *, user_id: str) -> None:
    """Insert or replace units' rows, and count what they name."""
    for chunk in chunks:
        change.put("chunks", encode(chunk))
    hold_objects(change, user_id, stored_units(chunks))


def remove_job(change: Transaction, job_id: str) -> None:
    """Remove a job's row and everything of it."""
    change.drop("events", job_id)
    change.drop("chunks", job_id)
    change.remove("jobs", job_id)


def leave_results(change: Transaction, leaving: Sequence[TableRow]) -> None:
    """Have what jobs that are about to go made count for a copy that shows it still, where there is one."""
    left = {_maker(row): row.get("stored_bytes", 0) for row in leaving if row.get("stored_bytes", 0)}
    left.pop(None, None)
    going = {str(row["id"]) for row in leaving}
    for row in sorted(change.tables.of("jobs"), key=lambda row: str(row["id"])) if left else ():
        is_copy = (
            str(row["id"]) not in going and row["session_id"] is not None and row["user_id"] == leaving[0]["user_id"]
        )
        if is_copy and (size := left.pop(_maker(row), 0)):
            taken = cast("int", row.get("stored_bytes", 0)) + cast("int", size)
            change.set("jobs", str(row["id"]), {"stored_bytes": taken})


def renders_in_turn(tables: Tables, at: str) -> list[TableRow]:
    """Read renders of people's own that nobody holds, by turns: each user's first one, then the second ones."""
    owed = [row for row in tables.of("jobs") if row["status"] in OWED_STATUSES and row["session_id"] is None]
    turns = Counter[str]()
    waiting: list[tuple[int, str, str, TableRow]] = []
    for row in sorted(owed, key=lambda row: (row["status"] != "running", str(row["updated_at"]), str(row["id"]))):
        turns[str(row["user_id"])] += 1  # what is under way counts as a turn that was had
        if _is_unheld(row, at):
            waiting.append((turns[str(row["user_id"])], str(row["updated_at"]), str(row["id"]), row))
    return [row for *_, row in sorted(waiting, key=lambda each: each[:3])]


def _result(row: TableRow) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue] | None", row["result"]) or {}


def _maker(row: TableRow) -> str | None:
    return maker_of(_result(row))


def _is_held(row: TableRow, at: str) -> bool:
    return row["lease_until"] is not None and str(row["lease_until"]) > at


def _is_unheld(row: TableRow, at: str) -> bool:
    return row["lease_until"] is None or str(row["lease_until"]) < at


def _make_all(change: Transaction, jobs: Sequence[JobRecord], quota: RenderQuota | None) -> list[JobRecord]:
    are_there = all(change.tables.get("jobs", job.id) is not None for job in jobs)
    rows = [_make(change, job) for job in jobs]
    if quota is not None and not are_there:
        check_renders(quota, _taken(change.tables, jobs[0].user_id))
    return rows


def _taken(tables: Tables, user_id: str) -> RenderQuota:
    """Count what a user's renders take."""
    return RenderQuota(
        renders=sum(row["status"] in OWED_STATUSES for row in _page_renders(tables, user_id, "")),
        video_s=queued_video_s(tables, user_id),
        stored_bytes=count_stored(tables, user_id),
    )


def _make(change: Transaction, job: JobRecord) -> JobRecord:
    ensure_project(change, job.user_id, job.project_id, job.project_id)
    may_begin(change, job.user_id)
    if change.tables.get("jobs", job.id) is None:
        change.put("jobs", encode(job, seq=0))
    return decode(JobRecord, _job(change.tables, job.id, job.user_id))


def _job(tables: Tables, job_id: str, user_id: str | None = None) -> TableRow:
    row = tables.get("jobs", job_id)
    if row is None or (user_id is not None and row["user_id"] != words(user_id)):
        raise no_such("job", job_id)
    return row


def _fence(change: Transaction, job_id: str, epoch: int) -> int:
    """Return the number of a job's newest event; raise Fenced where its epoch is another."""
    row = change.tables.get("jobs", job_id)
    if row is None or row["epoch"] != epoch:
        raise replaced("job", job_id, epoch=epoch, current=None if row is None else epoch_of(row))
    return cast("int", row["seq"])


def _changing(job: JobRecord) -> TableRow:
    return {name: value for name, value in encode(job).items() if name not in _NEVER_CHANGED}


def _page_renders(tables: Tables, user_id: str, id_prefix: str) -> Iterator[TableRow]:
    """Go through a user's page renders whose id begins so."""
    return _renders(tables, user_id, RendersSought(id_prefix=id_prefix))


def _renders(tables: Tables, user_id: str, sought: RendersSought) -> Iterator[TableRow]:
    """Go through the renders of a user that somebody looks for: none is of a session that its user does not see."""
    since, until = (None if at is None else moment(at) for at in (sought.since, sought.until))
    for row in tables.of("jobs"):
        if (
            row["user_id"] == words(user_id)
            and (not sought.kinds or row["kind"] in sought.kinds)
            and (sought.session_id is None or row["session_id"] == words(sought.session_id))
            and (not sought.statuses or row["status"] in sought.statuses)
            and str(row["id"]).startswith(sought.id_prefix)
            and (since is None or str(row["updated_at"]) >= since)
            and (until is None or str(row["updated_at"]) < until)
            and is_of_seen(tables, row)
        ):
            yield row


def _age(row: TableRow) -> tuple[str, str]:
    return str(row["created_at"]), str(row["id"])


def _newest(rows: Iterator[TableRow]) -> list[TableRow]:
    return sorted(rows, key=_age, reverse=True)
