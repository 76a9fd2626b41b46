"""A render of its own, without a session: its row, its stream of events, and the job itself, as a plain class.

The row is the render; this object is its hands, and only while its epoch is the newest. What is finished lies in
storage under its key, so whoever takes the row up after a crash does only what is missing. A lease says that somebody
is at it: when that runs out, the janitor has the render taken up again, wherever there is room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import cast

from pydantic import JsonValue

from koda_ray.actors.job_words import ProgressPace, chunk_of, progress_words, result_words, start_words
from koda_ray.actors.spending import RenderMinutes
from koda_ray.agent.purse import Purse
from koda_ray.cancellation import end_all
from koda_ray.errors import BudgetExceeded, Cancelled, Fenced, KodaError, NotFound, RenderError
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger
from koda_ray.render.job import RenderJob
from koda_ray.render.options import JobOptions, PageContract, make_spec, needs_page
from koda_ray.render.page_probe import probe_page
from koda_ray.render.protocol import Progress, RenderExecutor, UnitResult
from koda_ray.render.spec import RenderSpec
from koda_ray.state.charges import Move, Refund
from koda_ray.state.storage import Storage
from koda_ray.state.store import ChunkRecord, JobRecord, JobStatus, Store
from koda_ray.types import now

__all__ = ["MAX_ACTIVATIONS", "OVER", "StandaloneRender", "job_request"]

OVER: tuple[JobStatus, ...] = ("succeeded", "failed", "cancelled")
"""A job in one of these will not change any more."""
MAX_ACTIVATIONS = 200
"""A render that was taken up so often brings its process down each time: it is given up."""
_BEATS = 3
_log = get_logger(__name__)


def job_request(*, bundle: str, entry: str, options: JobOptions) -> dict[str, JsonValue]:
    """Return what a new render's row says of what is wanted."""
    return {"bundle": bundle, "entry": entry, "request": options.to_json()}


class StandaloneRender:
    """One render job of a user's own.

    Args:
        job_id: Which.
        store: Its row and events.
        storage: Its bundle, and where the video goes.
        executor: Who renders.
        lease_s: How long the row is held without a sign of life, in seconds.
        ended: Called once when there is nothing more to do here.
        purse: What its user may use in a month; without limit when None.
    """

    def __init__(
        self,
        job_id: str,
        *,
        store: Store,
        storage: Storage,
        executor: RenderExecutor,
        lease_s: float,
        ended: Callable[[], None],
        purse: Purse | None = None,
    ) -> None:
        self.job_id = job_id
        self._store = store
        self._storage = storage
        self._executor = executor
        self._lease = timedelta(seconds=lease_s)
        self._ended = ended
        self._purse = purse or Purse(None)
        self._minutes: RenderMinutes | None = None
        self._lock = asyncio.Lock()
        self._row: JobRecord | None = None
        self._running: asyncio.Task[None] | None = None
        self._lost = False
        self._pace = ProgressPace()

    async def start(self) -> None:
        """Take the row, and begin.

        Raises:
            NotFound: There is no such job.
            Conflict: It is over.
        """
        self._row = await self._store.claim_job(self.job_id, lease_until=now() + self._lease)
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop working and give the row up, so that it is taken up elsewhere; may be called twice."""
        await self._stop()
        row = self._row
        if row is not None and row.status == "running" and not self._lost:
            try:
                await self._store.update_job(replace(row, lease_until=None, updated_at=now()))
            except KodaError as error:
                _log.info("render not given up", job_id=self.job_id, code=error.code)

    async def wait(self) -> None:
        """Wait until there is nothing more to do here."""
        if self._running is not None:
            await asyncio.wait({self._running})

    async def stop(self) -> None:
        """End the work with its processes; whoever calls has seen to the row."""
        self._lost = True
        await self._stop()

    async def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def _run(self) -> None:
        work = asyncio.create_task(self._work())
        beat = asyncio.create_task(self._keep_lease())
        try:
            # whichever ends first: the work, or the lease because somebody else has the row
            await asyncio.wait({work, beat}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            try:
                await end_all((work, beat))  # also where it is stopped while it ends
            finally:
                for task in (work, beat):
                    error = None if task.cancelled() else task.exception()
                    if error is not None and not isinstance(error, KodaError):
                        _log.error("render ended by an error of our own", job_id=self.job_id, error=repr(error))
                self._ended()

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(self._lease.total_seconds() / _BEATS)
            try:
                await self._write()
            except (Fenced, NotFound):  # somebody else has it, or it was deleted
                self._lost = True
                return
            except KodaError as error:  # a database that is away for a moment; the lease decides who goes on
                _log.warning("lease not renewed", job_id=self.job_id, code=error.code)

    async def _work(self) -> None:
        try:
            try:
                await self._render()
            except Fenced:
                raise
            except Cancelled:
                await self._write("cancelled", events=[_state("cancelled")], charges=self._used())
            except KodaError as error:
                await self._fail(error)
            except Exception as error:
                _log.exception("render failed", job_id=self.job_id)
                await self._fail(RenderError(f"{type(error).__name__}: {error}", code="INTERNAL"))
        except Fenced:
            self._lost = True
            _log.info("render was taken over or cancelled", job_id=self.job_id)

    async def _render(self) -> None:
        row = self._held()
        if row.epoch > MAX_ACTIVATIONS:
            raise RenderError(f"the render was begun {MAX_ACTIVATIONS} times and its process ended each time")
        await self._write(events=[_state("running")])
        spec = await self._plan(row)
        planned: dict[str, JsonValue] = {**row.spec, "spec": spec.to_json()}
        known = await self._store.charges(self.job_id)
        self._minutes = RenderMinutes(self._purse, job_id=self.job_id, spec=spec, charges=known)
        began = NewEvent(type="render_start", data={"jobId": self.job_id, **start_words(spec)})
        await self._write(spec=planned, events=[began], charges=[self._minutes.begin()])
        job = RenderJob(
            spec,
            storage=self._storage,
            executor=self._executor,
            job_id=self.job_id,
            user_id=row.user_id,
            on_progress=self._progress,
            on_unit=self._unit,
            urgent=cast("dict[str, JsonValue]", row.spec["request"]).get("preset") == "preview",
        )
        made = await job.run()
        done = result_words(made, spec)
        complete = NewEvent(type="render_complete", data={"jobId": self.job_id, **done})
        told = [complete, _state("succeeded")]
        await self._write("succeeded", result=done, progress={"percent": 100.0}, events=told, charges=self._used())

    def _used(self) -> list[Move]:
        return [] if self._minutes is None else [self._minutes.end()]

    async def _plan(self, row: JobRecord) -> RenderSpec:
        """Return the video as planned before, or plan it: what was decided once stays so through every crash."""
        planned = row.spec.get("spec")
        if isinstance(planned, dict):
            return RenderSpec.from_json(planned)
        options = JobOptions.from_json(cast("dict[str, JsonValue]", row.spec["request"]))
        bundle, entry = str(row.spec["bundle"]), str(row.spec["entry"])
        contract = PageContract()
        if needs_page(options):
            contract = await probe_page(
                options, bundle=bundle, entry=entry, storage=self._storage, executor=self._executor, user_id=row.user_id
            )
        return make_spec(options, bundle=bundle, entry=entry, page=contract)

    async def _fail(self, error: KodaError) -> None:
        data: dict[str, JsonValue] = {"code": error.code, "message": error.message}
        told = NewEvent(type="error", data={"jobId": self.job_id, **data})
        charges: list[Move] = [Refund(id=self.job_id, reason=error.code)]
        if isinstance(error, BudgetExceeded):  # what was rendered until then is kept, and the next one finds it
            charges = self._used() if await self._store.charges(self.job_id) else []
        await self._write("failed", error=data, events=[told, _state("failed")], charges=charges)

    async def _progress(self, progress: Progress) -> None:
        if not self._pace.is_due(progress):
            return
        data = progress_words(progress)
        event = NewEvent(type="render_progress", data={"jobId": self.job_id, **data})
        await self._write(progress=data, events=[event])

    async def _unit(self, unit: UnitResult) -> None:
        row = self._held()
        await self._write(
            chunks=[chunk_of(row, unit)], charges=[] if self._minutes is None else self._minutes.unit(unit)
        )
        found = await self._purse.used_up(self._store, row.user_id, ("render",))
        if found is not None and not unit.reused:
            raise found.error()

    async def _write(
        self,
        status: JobStatus | None = None,
        *,
        spec: dict[str, JsonValue] | None = None,
        progress: dict[str, JsonValue] | None = None,
        result: dict[str, JsonValue] | None = None,
        error: dict[str, JsonValue] | None = None,
        chunks: Sequence[ChunkRecord] = (),
        events: Sequence[NewEvent] = (),
        charges: Sequence[Move] = (),
    ) -> None:
        """Write the row with what changed, and what announces it, in one transaction; renews the lease."""
        async with self._lock:
            row = self._held()
            at = now()
            new = replace(
                row,
                status=status or row.status,
                lease_until=None if status in OVER else at + self._lease,
                spec=row.spec if spec is None else spec,
                progress=row.progress if progress is None else progress,
                result=row.result if result is None else result,
                error=row.error if error is None else error,
                updated_at=at,
            )
            writing = asyncio.ensure_future(self._store.update_job(new, chunks=chunks, events=events, charges=charges))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                # memory and database must not part because whoever writes is cancelled meanwhile
                await asyncio.wait({writing})
                raise
            finally:
                if writing.done() and not writing.cancelled() and writing.exception() is None:
                    self._row = new

    def _held(self) -> JobRecord:
        assert self._row is not None, "start() comes first"
        return self._row


def _state(status: JobStatus) -> NewEvent:
    return NewEvent(type="state_change", data={"status": status})
