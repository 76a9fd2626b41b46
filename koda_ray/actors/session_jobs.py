"""A session's render jobs: their rows and events are written under the session's fence, and one may be gone on with.

A job's units are found again by their keys in storage, so running the same job a second time, after a crash, only
does what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

from koda_ray.actors.core import SessionCore
from koda_ray.actors.job_owner import JobChange, JobOwner, ended_by
from koda_ray.actors.spending import render_estimate_ms
from koda_ray.agent.purse import Purse
from koda_ray.budgets import Amounts
from koda_ray.errors import (
    BudgetExceeded,
    DatabaseAway,
    KodaError,
    NotFound,
    PageError,
    PageNotReady,
    RenderError,
)
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger
from koda_ray.render.protocol import ProbeTask, RenderExecutor, RenderResult
from koda_ray.render.spec import RenderSpec
from koda_ray.state.charges import ChargeEntry, ChargeRecord, Refund, Settle
from koda_ray.state.records import Batch, JobRecord
from koda_ray.state.storage import Storage
from koda_ray.types import now

__all__ = ["JobRequest", "LeftJobs", "SessionJob", "SessionJobs"]

_CANCEL_S = 30.0
_NEVER = "never finished"
_LEAST_SLOTS = 2
"""How many browsers there must be for a job to begin early: what finds out whether it is wanted needs one too."""
MAX_LOWER = 2
"""How often a failed render is tried again at lower quality."""
_log = get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest:
    """A job that a session wants: its video, its id, what it is for, and the call that wants it."""

    spec: RenderSpec
    id: str
    kind: Literal["preview", "final"]
    cause_id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionJob:
    """A job of a session, with who writes it."""

    owner: JobOwner
    fence: _SessionFence


@dataclass(frozen=True, kw_only=True)
class LeftJobs:
    """What is written to end jobs that nobody goes on with: their rows, and their charges."""

    jobs: list[JobRecord]
    charges: list[ChargeEntry]


class SessionJobs:
    """Runs the render jobs of one session."""

    def __init__(self, core: SessionCore, *, storage: Storage, executor: RenderExecutor, purse: Purse) -> None:
        self._core = core
        self._purse = purse
        self._storage = storage
        self._executor = executor
        self._ended: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def early(self, request: JobRequest | None, trial: ProbeTask) -> AsyncGenerator[SessionJob | None]:
        """Have a job captured while the block finds out whether it is wanted; then it is given to `run`.

        Before that nobody hears of it and it costs nothing; what was captured of one that is not wanted stays in
        storage, where it is found or swept.

        Args:
            request: The job; None where none can be foreseen.
            trial: How its page is tried, which the job does too.

        Yields:
            The job; None where there is no room or nothing left for it, or no second browser.
        """
        if request is None or not await self._may_be_early(request):
            yield None
            return
        known = await self._core.store.charges(self._core.session_id)
        job = self._job(request, known)
        job.owner.begin_early(self._storage, self._executor, trial)
        try:
            yield job
        finally:
            await job.owner.end()

    async def _may_be_early(self, request: JobRequest) -> bool:
        slots = self._executor.slots
        if min(slots.now, slots.urgent or slots.now) < _LEAST_SLOTS:
            return False
        try:
            await self._purse.check_stored()
        except BudgetExceeded:
            return False
        wanted = Amounts(render_ms=render_estimate_ms(request.spec))
        return await self._purse.used_up(self._core.store, self._core.user_id, ("render",), wanted) is None

    async def run_as_possible(self, request: JobRequest, *, early: SessionJob | None = None) -> RenderResult:
        """Render a job, and where that fails at lower quality, twice at most; the person is told each time.

        Args:
            request: The job.
            early: What was begun early, of this video or another.

        Raises:
            PageError: Of a preview at once: agents mend its page.
            PageNotReady: As that.
            KodaError: As `run`, at the lowest quality.
        """
        for lower in range(MAX_LOWER + 1):
            try:
                return await self.run(request, early=early)
            except RenderError as error:
                mended = request.kind == "preview" and isinstance(error, PageError | PageNotReady)
                if mended or lower == MAX_LOWER:
                    raise
                early, spec = None, request.spec.at_lower_quality()
                request = replace(request, spec=spec)
                what = "preview" if request.kind == "preview" else "render"
                words = f"The {what} failed ({error.code}); trying {spec.width}x{spec.height} at {spec.rate:g} fps."
                session = self._core.session_id
                _log.warning("render failed", session_id=session, kind=request.kind, code=error.code, lower=lower)
                await self._core.emit(NewEvent(type="message", data={"role": "assistant", "content": words}))
        raise AssertionError("unreachable: the last try returns or raises")

    async def run(self, request: JobRequest, *, early: SessionJob | None = None) -> RenderResult:
        """Render, or finish rendering, a job.

        Args:
            request: The job.
            early: As `run_as_possible` takes it.

        Raises:
            KodaError: What the job could not get over; its row says so too.
            BudgetExceeded: There is no time or no room left for it; what is rendered stays, and running it again goes
                on.
        """
        await self._purse.check_stored()
        known = await self._core.store.charges(self._core.session_id)
        await self._write(await self._left(known, but=request.id))
        begun = early is not None and early.owner.spec == request.spec
        job = early if early is not None and begun else self._job(request, known)
        if early is not None and not begun:
            await early.owner.end()
            job.owner.take_over(early.owner)
        owner, fence = job.owner, job.fence
        await owner.begin()
        ended = self._ended[request.id] = asyncio.Event()
        try:
            reference = await self._agreed(request.spec) if request.kind == "final" else None
            return await self._run(owner, fence, reference=reference)
        except asyncio.CancelledError:  # a process that ends in order leaves it for the next one, as one that is killed
            if not self._core.lost:
                left = JobChange(status="cancelled", charges=[owner.minutes.pause()])
                await asyncio.shield(fence.write(left))
            raise
        finally:
            ended.set()
            self._ended.pop(request.id, None)

    def _job(self, request: JobRequest, known: Sequence[ChargeRecord]) -> SessionJob:
        at = now()
        row = JobRecord(
            id=request.id,
            user_id=self._core.user_id,
            project_id=self._core.project_id,
            session_id=self._core.session_id,
            kind=request.kind,
            spec=request.spec.to_json(),
            video_s=request.spec.duration_s,
            status="running",
            epoch=0,  # a session's job is fenced by the session
            created_at=at,
            updated_at=at,
        )
        fence = _SessionFence(self._core, row, request.cause_id)
        owner = JobOwner(fence, request.spec, store=self._core.store, purse=self._purse, charges=known)
        return SessionJob(owner, fence)

    async def leave(self) -> None:
        """End jobs that a killed process left running, and their charges, where nobody will finish them now."""
        await self._write(await self.left())

    async def left(self) -> LeftJobs:
        """Say what ends the jobs that nobody goes on with; those that this process runs are not among them."""
        return await self._left(await self._core.store.charges(self._core.session_id))

    async def _left(self, known: Sequence[ChargeRecord], *, but: str = "") -> LeftJobs:
        runs = {*self._ended, but}
        stale = [
            replace(job, status="cancelled", updated_at=now())
            for job in await self._core.store.list_jobs(session_id=self._core.session_id)
            if job.status in ("queued", "running") and job.id not in runs
        ]
        return LeftJobs(jobs=stale, charges=_never([charge for charge in known if charge.id not in runs]))

    async def _write(self, left: LeftJobs) -> None:
        if left.jobs or left.charges:
            await self._core.commit(Batch(jobs=left.jobs, charges=left.charges))

    async def _run(self, owner: JobOwner, fence: _SessionFence, *, reference: str | None) -> RenderResult:
        job = fence.row
        try:
            return await owner.run(self._storage, self._executor, reference=reference, urgent=job.kind == "preview")
        except BudgetExceeded:
            await fence.write(JobChange(status="cancelled", charges=[owner.minutes.pause()]))
            raise
        except DatabaseAway:  # it is not over: it is finished, from what is stored, once there is a database
            raise
        except KodaError as error:
            await fence.write(ended_by(error, job.id, [owner.minutes.end()]))
            raise

    async def _agreed(self, spec: RenderSpec) -> str | None:
        """Return the key of the preview's video, where it shows the same bundle: the final is compared with it."""
        shown = self._core.state.preview
        if shown is None or shown.bundle != spec.bundle:
            return None
        try:
            key = ((await self._core.store.get_job(shown.job_id)).result or {}).get("videoKey")
        except NotFound:
            return None
        return key if isinstance(key, str) else None

    async def cancelled(self, job_id: str) -> None:
        """Mark a job cancelled, once the work that was ended for it is over."""
        if (ended := self._ended.get(job_id)) is not None:
            async with asyncio.timeout(_CANCEL_S):
                await ended.wait()
        try:
            job = await self._core.store.get_job(job_id)
        except NotFound:  # it never began
            return
        known = await self._core.store.charges(self._core.session_id)
        left = _never([charge for charge in known if charge.id == job_id])
        over = [replace(job, status="cancelled", updated_at=now())] if job.status in ("queued", "running") else []
        if over or left:
            await self._core.commit(Batch(jobs=over, charges=left))


class _SessionFence:
    """Writes a job of a session, under the session's own fence; what is told of it names the kind and the cause."""

    def __init__(self, core: SessionCore, row: JobRecord, cause_id: str | None) -> None:
        self._core = core
        self._row = row
        self._cause_id = cause_id

    @property
    def row(self) -> JobRecord:
        return self._row

    async def write(self, change: JobChange) -> None:
        row = change.of(self._row)
        told = {"quality": row.kind}
        events = [NewEvent(type=e.type, data={**e.data, **told}, cause_id=self._cause_id) for e in change.events]
        await self._core.commit(
            Batch(jobs=[row], chunks=list(change.chunks), events=events, charges=list(change.charges))
        )
        self._row = row


def _never(known: Sequence[ChargeRecord]) -> list[ChargeEntry]:
    """Settle renders at what they have used; they were paused, or their process has died."""
    open_ = [charge for charge in known if charge.kind == "render" and charge.status == "reserved"]
    return [
        Settle(id=charge.id, kind="render", reason=_NEVER) if charge.spent else Refund(id=charge.id, reason=_NEVER)
        for charge in open_
    ]
