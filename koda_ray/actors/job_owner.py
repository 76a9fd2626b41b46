"""A render job and its owner: its charge, what is told of it, and the job itself, in one way for all of them.

Whose a job is decides under which fence its row is written and what becomes of it when it is broken off, and that
alone: a session writes it with the rest of what is its (`koda_ray.actors.session_jobs`), a page render by itself, under
a lease (`koda_ray.actors.leased_job`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pydantic import JsonValue

from koda_ray.actors.job_words import ProgressPace, chunk_of, progress_words, result_words, start_words, waiting_words
from koda_ray.actors.spending import RenderMinutes
from koda_ray.agent.purse import Purse
from koda_ray.errors import Cancelled, KodaError
from koda_ray.events import EventType, NewEvent
from koda_ray.render.job import RenderJob
from koda_ray.render.protocol import (
    JobContext,
    ProbeReport,
    ProbeTask,
    Progress,
    RenderExecutor,
    RenderResult,
    UnitResult,
)
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.spec import RenderSpec
from koda_ray.state.charges import ChargeEntry, ChargeRecord, Refund
from koda_ray.state.keys import render_prefix
from koda_ray.state.records import ChunkRecord, JobRecord, JobStatus
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store
from koda_ray.tracing import span
from koda_ray.types import now

__all__ = ["JobChange", "JobFence", "JobOwner", "ended_by"]

_BEGINS_AFTER = 21
"""So many frames Chromium reads before it plays a video that comes in parts: it finds out how many a second there are
(FFmpeg's ``fps_analyze_framecount``)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChange:
    """What becomes of a job, and what is written with it in one transaction; what is None stays as it is."""

    status: JobStatus | None = None
    spec: dict[str, JsonValue] | None = None
    progress: dict[str, JsonValue] | None = None
    result: dict[str, JsonValue] | None = None
    error: dict[str, JsonValue] | None = None
    video_s: float | None = None
    stored_bytes: int | None = None
    chunks: Sequence[ChunkRecord] = ()
    events: Sequence[NewEvent] = ()
    charges: Sequence[ChargeEntry] = ()

    def of(self, row: JobRecord) -> JobRecord:
        """Return the job as it is then."""
        names = ("status", "spec", "progress", "result", "error", "video_s", "stored_bytes")
        said = {name: value for name in names if (value := getattr(self, name)) is not None}
        return replace(row, **said, updated_at=now())


class JobFence(Protocol):
    """Whoever may write a job's row, for as long as they may."""

    @property
    def row(self) -> JobRecord:
        """The job as last written."""
        ...

    async def write(self, change: JobChange) -> None:
        """Change the job. Raises Fenced where somebody else has it now."""
        ...


class JobOwner:
    """Runs one render job, and tells of it.

    Args:
        fence: Writes its row.
        spec: What is rendered.
        store: Where accounts are.
        purse: Who pays.
        charges: What is known of its costs already.
    """

    def __init__(
        self, fence: JobFence, spec: RenderSpec, *, store: Store, purse: Purse, charges: Sequence[ChargeRecord]
    ) -> None:
        self._fence = fence
        self._spec = spec
        self._store = store
        self._purse = purse
        self._pace = ProgressPace()
        self._job: RenderJob | None = None
        self._begun = False
        self._untold: list[UnitResult] = []
        self._taken_over: dict[str, UnitResult] = {}
        self._stops: dict[int, int] = {}
        self._taken_ms: dict[int, tuple[str, int]] = {}
        self._heard: Progress | None = None
        self.minutes = RenderMinutes(purse, job_id=fence.row.id, spec=spec, charges=charges)

    @property
    def spec(self) -> RenderSpec:
        """What is rendered."""
        return self._spec

    def begin_early(self, storage: Storage, executor: RenderExecutor, trial: ProbeTask) -> None:
        """Have it captured before anybody hears of it; `run` goes on from there, or `end` ends it without a word.

        Args:
            storage: As `run` takes it.
            executor: As `run` takes it.
            trial: How its page is tried meanwhile.
        """
        self._job = self._render(storage, executor, urgent=True)
        self._job.begin_early(trial)

    async def tried(self) -> ProbeReport | None:
        """Return what was found of the page of a job that was begun early; None where it was not tried."""
        return None if self._job is None else await self._job.tried()

    def take_over(self, other: JobOwner) -> None:
        """Charge what another of the same pictures captured early, once it is found to be this one's."""
        self._taken_over |= {unit.key: unit for unit in other._untold if not unit.reused}

    async def end(self) -> None:
        """End what was begun early and is still under way."""
        if self._job is not None:
            await self._job.end()

    async def begin(self) -> None:
        """Say what will be made, and hold what it may cost.

        Raises:
            BudgetExceeded: There is not so much left; nothing was written.
        """
        began = _event(self._fence, "render_start", start_words(self._spec))
        await self._fence.write(JobChange(events=[began], charges=[self.minutes.begin()]))

    async def run(
        self, storage: Storage, executor: RenderExecutor, *, reference: str | None = None, urgent: bool = False
    ) -> RenderResult:
        """Render what was begun, or finish rendering it.

        Args:
            storage: Its bundle, and where the video goes.
            executor: Who renders.
            reference: As `RenderJob` takes it.
            urgent: As `RenderJob` takes it.

        Raises:
            KodaError: What the job could not get over; `ended_by` says what becomes of its row.
            BudgetExceeded: There is no time left for it; what is rendered stays.
        """
        row = self._fence.row
        self._taken_ms = {unit.unit: (unit.key, unit.wall_ms) for unit in await self._store.chunks(row.id)}
        job = self._job or self._render(storage, executor, reference=reference, urgent=urgent)
        with span("render", {"koda.job": row.id, "koda.kind": row.kind, "koda.urgent": urgent}):
            try:
                await self._tell_untold()
                result = await job.run()
            finally:
                await job.end()
        folder = render_prefix(row.user_id, row.id)
        found = await RetryingStorage(storage).look_below(folder)  # the video, its pictures and its report
        done = result_words(result, self._spec)
        await self._fence.write(
            JobChange(
                status="succeeded",
                result=done,
                stored_bytes=sum(stored.size_bytes for stored in found),
                progress={"percent": 100.0},
                events=[_event(self._fence, "render_complete", done)],
                charges=[self.minutes.end()],
            )
        )
        return result

    def _render(
        self, storage: Storage, executor: RenderExecutor, *, reference: str | None = None, urgent: bool
    ) -> RenderJob:
        row = self._fence.row
        return RenderJob(
            self._spec,
            JobContext(storage=storage, executor=executor, job_id=row.id, user_id=row.user_id, urgent=urgent),
            on_progress=self.progress,
            on_unit=self.unit,
            reference=reference,
        )

    async def progress(self, progress: Progress) -> None:
        """Tell how far it is, now and then."""
        self._heard = progress
        if self._begun and self._pace.is_due(progress):
            await _tell(self._fence, progress_words(progress, watchable_s=self._watchable_s()))

    @staticmethod
    async def tell_waiting(fence: JobFence, waited_s: float) -> None:
        """Tell for how long a job has waited for a machine that has no owner yet, since nobody could plan it.

        Args:
            fence: Writes its row.
            waited_s: For how long, in seconds.
        """
        await _tell(fence, waiting_words(waited_s))

    async def unit(self, unit: UnitResult) -> None:
        """Record and charge a unit that is stored.

        Raises:
            BudgetExceeded: There is nothing left for another.
        """
        if not self._begun:
            self._untold.append(unit)
            return
        await self._write([unit])

    def _watchable_s(self) -> float:
        """Return how many seconds of the video stand without a gap, where it can be watched before it is joined."""
        stop = 0
        while self._spec.format == "mp4" and stop in self._stops:
            stop = self._stops[stop]
        return self._spec.seconds(stop) if stop >= min(_BEGINS_AFTER, self._spec.frame_count) else 0.0

    async def _tell_untold(self) -> None:
        self._begun = True
        if self._untold:
            await self._write(self._untold)

    async def _write(self, units: Sequence[UnitResult]) -> None:
        """Record units, and charge what nobody was charged for, in one transaction."""
        was_watchable = self._watchable_s() > 0
        self._stops |= {unit.unit.start: unit.unit.stop for unit in units}
        words: dict[str, JsonValue] | None = None
        if not was_watchable and self._heard is not None and (stands_s := self._watchable_s()):
            words = progress_words(self._heard, watchable_s=stands_s)  # who waits to watch it waits no longer
        row = self._fence.row
        made = [self._taken_over.pop(unit.key, unit) if unit.reused else unit for unit in units]
        charges = [charge for unit in made for charge in self.minutes.unit(unit)]
        told = [] if words is None else [_event(self._fence, "render_progress", words)]
        chunks = [self._with_all_its_time(chunk_of(row, unit), reused=unit.reused) for unit in made]
        await self._fence.write(JobChange(progress=words, chunks=chunks, events=told, charges=charges[-1:]))
        found = await self._purse.used_up(self._store, row.user_id, ("render",))
        if found is not None and not all(unit.reused for unit in made):
            raise found.error()

    def _with_all_its_time(self, chunk: ChunkRecord, *, reused: bool) -> ChunkRecord:
        """Add what was taken, and charged, for a unit before it was captured anew: by newer nodes, or another way."""
        key, before_ms = self._taken_ms.get(chunk.unit, (chunk.key, 0))
        if not reused:
            chunk = replace(chunk, wall_ms=before_ms + chunk.wall_ms)
        elif key == chunk.key and before_ms:
            chunk = replace(chunk, wall_ms=before_ms)
        self._taken_ms[chunk.unit] = chunk.key, chunk.wall_ms
        return chunk


async def _tell(fence: JobFence, data: dict[str, JsonValue]) -> None:
    """Say how far a job is, in its row and to whoever listens."""
    await fence.write(JobChange(progress=data, events=[_event(fence, "render_progress", data)]))


def _event(fence: JobFence, type: EventType, data: dict[str, JsonValue]) -> NewEvent:
    return NewEvent(type=type, data={"jobId": fence.row.id, **data})


def ended_by(error: KodaError, job_id: str, used: Sequence[ChargeEntry]) -> JobChange:
    """Say what becomes of a job that an error ended: one that was cancelled costs what it used, a failure nothing."""
    said: dict[str, JsonValue] = {"code": error.code, "message": error.message}
    if isinstance(error, Cancelled):
        return JobChange(status="cancelled", error=said, charges=used)
    return JobChange(status="failed", error=said, charges=[Refund(id=job_id, reason=error.code)])
