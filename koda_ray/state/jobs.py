"""Render jobs: rows that a coordinator holds under an epoch of their own, as a process does a session's.

A session's jobs change with that session's commits; page renders are nobody's but their user's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from koda_ray.events import Envelope, NewEvent
from koda_ray.state.charges import ChargeEntry
from koda_ray.state.records import PAGE_RENDERS, ChunkRecord, JobRecord, JobStatus, RenderQuota, RendersSought

__all__ = ["JobStore"]


class JobStore(Protocol):
    """The jobs of sessions and of pages, with their parts and their own streams."""

    async def create_job(self, job: JobRecord, *, quota: RenderQuota | None = None) -> JobRecord:
        """Insert a job, or return the row that is there; ``quota`` as in `create_jobs`."""
        ...

    async def create_jobs(self, jobs: Sequence[JobRecord], *, quota: RenderQuota | None = None) -> list[JobRecord]:
        """Insert jobs of one user and project, all or none, or return the rows that are there, in the order given.

        Raises:
            NotFound: One of the rows that are there is another user's; nothing was inserted.
            Conflict: One of them was made for something else: what the given ``spec`` says is not in its own.
            LimitReached: With them, the user would have more than ``quota``, or has stored as much already; nothing
                was inserted. It holds however many are made at once.
        """
        ...

    async def get_job(self, job_id: str, *, user_id: str | None = None) -> JobRecord:
        """Read a job; NotFound as with sessions."""
        ...

    async def list_jobs(
        self,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        ids: Collection[str] | None = None,
        limit: int | None = None,
        before: tuple[datetime, str] | None = None,
    ) -> list[JobRecord]:
        """Read jobs, newest first: all, or ``limit`` at most of those after one in the list, its time and its id.

        Args:
            session_id: Of which session.
            user_id: Whose.
            ids: Of which ids; some hundreds of them at most.
            limit: How many at most.
            before: After which.
        """
        ...

    async def job_ids(
        self,
        user_id: str,
        *,
        among: Collection[str] | None = None,
        showing: str | None = None,
        unswept: bool = False,
    ) -> list[str]:
        """Read the ids of a user's jobs, in no order, and nothing else of them.

        Whoever goes through many jobs reads them by these.

        Args:
            user_id: Whose.
            among: Only those of these ids; some hundreds of them at most.
            showing: Only those that show what this job made: itself, and its copies in sessions made of its own.
            unswept: Only those whose video was not removed since, with the rest of what they made left (`VIDEO_SWEPT`).
        """
        ...

    async def copies(self, user_id: str) -> dict[str, list[str]]:
        """Read which of a user's jobs show what another one made: their ids in order, by that one's.

        Whoever asks that of many jobs asks this once. A job that made what is shown is not among them, and may be gone.
        """
        ...

    async def list_renders(
        self,
        user_id: str,
        sought: RendersSought = PAGE_RENDERS,
        *,
        limit: int = 50,
        before: tuple[datetime, str] | None = None,
    ) -> list[JobRecord]:
        """Read a user's renders, newest first; none of sessions that are discarded, or being deleted.

        Args:
            user_id: Whose.
            sought: Which of them.
            limit: How many at most.
            before: When the last one of the page before was made, and its id.
        """
        ...

    async def count_renders(self, user_id: str, *, id_prefix: str = "") -> dict[JobStatus, int]:
        """Count a user's page renders by state; only states that occur."""
        ...

    async def admit_job(self, job_id: str, *, most: int, lease_until: datetime) -> JobRecord | None:
        """Let a page render begin, if fewer than ``most`` are under way; one is looked at at a time.

        It is held until ``lease_until``, under the epoch that it has, so that whoever works on it can claim it. One
        that somebody works on stays as it is, and so does one for which there is no room.

        Returns:
            The row, if there was room for it; None if there was none, or somebody works on it.

        Raises:
            NotFound: There is no such job.
            Conflict: It is over.
        """
        ...

    async def claim_job(self, job_id: str, *, lease_until: datetime) -> JobRecord:
        """Take a job: bump its epoch and set status running; raises Conflict when it is over."""
        ...

    async def cancel_job(self, job_id: str, *, user_id: str) -> JobRecord:
        """Cancel a job and fence whoever works on it: its next write raises Fenced. One that is over stays as it is.

        A session's is fenced by that session, and ended only while the session owes nothing: it works on none then.

        Raises:
            NotFound: It is missing or another user's.
        """
        ...

    async def cancel_renders(self, user_id: str, *, id_prefix: str, events: Sequence[NewEvent] = ()) -> list[str]:
        """Cancel a user's page renders whose id begins so, all at once, and fence whoever works on them.

        Those that are over stay as they are. From then on none begins.

        Args:
            user_id: Whose.
            id_prefix: How their ids begin.
            events: What each one's own stream says of it.

        Returns:
            The ids of those that were under way, in order: whoever works on them has to be told.
        """
        ...

    async def update_job(
        self,
        job: JobRecord,
        *,
        chunks: Sequence[ChunkRecord] = (),
        events: Sequence[NewEvent] = (),
        charges: Sequence[ChargeEntry] = (),
    ) -> None:
        """Write a job's row under its own epoch, with chunks, events of its own stream and charges.

        Raises:
            Fenced: The row has been claimed since.
            BudgetExceeded: A reservation does not fit; nothing was written.
        """
        ...

    async def note_stored(self, job: JobRecord, stored_bytes: int) -> None:
        """Note how much a job's files take; nothing happens where its row is another than this by now."""
        ...

    async def note_swept(self, job_ids: Collection[str]) -> None:
        """Note that the video of jobs was removed (`VIDEO_SWEPT`); nothing else of their rows is written.

        So what came to count for one of them meanwhile still does. Ids of which there is no job are passed over.

        Args:
            job_ids: Which; some hundreds of them at most.
        """
        ...

    async def delete_job(self, job_id: str, *, user_id: str, unless: Collection[JobStatus] = ()) -> bool:
        """Remove a job with its chunks and events; fences whoever works on it. Nothing happens when it is not there.

        A fork of its session that is under way either has its copy of the job by then, or gets none. Where a copy shows
        what the job made, what that takes counts for the copy from then on; so it is when a session is deleted.

        Args:
            job_id: Which.
            user_id: Whose.
            unless: In which states it stays as it is.

        Returns:
            Whether it was removed.
        """
        ...

    async def chunks(self, job_id: str, *, first: int = 0) -> list[ChunkRecord]:
        """Read a job's chunk rows by unit, from the first that is wanted on."""
        ...

    async def append_job_events(self, job_id: str, epoch: int, events: Sequence[NewEvent]) -> list[Envelope]:
        """Append to a job's own stream under the job's fence."""
        ...
