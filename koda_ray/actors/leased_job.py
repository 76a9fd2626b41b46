"""A page render's job, without a session: its row and its stream of events are its own, held by a lease; a plain class.

The row is the render; this object is its hands, and only while its epoch is the newest. What is finished lies in
storage under its key, so whoever takes the row up after a crash does only what is missing. A lease says that somebody
is at it: when that runs out, the janitor has the render taken up again, wherever there is room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Self, cast

from pydantic import JsonValue

from koda_ray.actors.job_owner import JobChange, JobOwner, ended_by
from koda_ray.agent.purse import Purse
from koda_ray.cancellation import end_all
from koda_ray.errors import BudgetExceeded, DatabaseAway, Fenced, KodaError, NotFound, RenderError
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger
from koda_ray.render.options import JobOptions, PageContract, make_spec, needs_page
from koda_ray.render.page_probe import page_contract
from koda_ray.render.protocol import RenderExecutor
from koda_ray.render.spec import RenderSpec
from koda_ray.state.records import JobRecord, JobStatus
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store
from koda_ray.tracing import span
from koda_ray.types import now

__all__ = ["MAX_ACTIVATIONS", "OVER", "JobParts", "LeasedJob", "counted_s", "row_spec"]

OVER: tuple[JobStatus, ...] = ("succeeded", "failed", "cancelled")
"""A job in one of these will not change any more."""
MAX_ACTIVATIONS = 200
"""A render that was taken up so often brings its process down each time: it is given up."""
_BEATS = 3
_ASSUMED_S = 60.0
_TELL_S = 2.0
_log = get_logger(__name__)


def row_spec(*, bundle: str, entry: str, options: JobOptions) -> dict[str, JsonValue]:
    """Return what a new render's row says of what is wanted."""
    return {"bundle": bundle, "entry": entry, "request": options.to_json()}


def counted_s(options: JobOptions) -> float:
    """Return how long a new render's video counts as, in seconds: a minute until the page is asked where it knows."""
    return _ASSUMED_S if options.duration_s is None else options.duration_s


@dataclass(frozen=True, kw_only=True, slots=True)
class JobParts:
    """What a page render's job works with.

    Args:
        store: Its row and events.
        storage: Its bundle, and where the video goes.
        executor: Who renders.
        purse: What its user may use in a month.
    """

    store: Store
    storage: Storage
    executor: RenderExecutor
    purse: Purse = field(default_factory=lambda: Purse(None))


class LeasedJob:
    """The job of one page render, at work from when it is made; `claim` makes it.

    Args:
        row: Its row, as it was claimed.
        parts: What it works with.
        lease_s: How long the row is held without a sign of life, in seconds.
        ended: Called once when there is nothing more to do here.
    """

    def __init__(self, row: JobRecord, parts: JobParts, *, lease_s: float, ended: Callable[[], None]) -> None:
        self.job_id = row.id
        self._row = row
        self._log = _log.bind(job_id=row.id, epoch=row.epoch)
        self._parts = parts
        self._store = parts.store
        self._lease = timedelta(seconds=lease_s)
        self._owner: JobOwner | None = None
        self._lock = asyncio.Lock()
        self._lost = False
        self._running = asyncio.create_task(self._run())
        self._running.add_done_callback(lambda _: ended())

    @classmethod
    async def claim(cls, job_id: str, parts: JobParts, *, lease_s: float, ended: Callable[[], None]) -> Self:
        """Take a job's row, and begin.

        Raises:
            NotFound: There is no such job.
            Conflict: It is over.
        """
        row = await parts.store.claim_job(job_id, lease_until=now() + timedelta(seconds=lease_s))
        return cls(row, parts, lease_s=lease_s, ended=ended)

    @property
    def row(self) -> JobRecord:
        """The job as last written."""
        return self._row

    @property
    def lost(self) -> bool:
        """Whether somebody else has the row, or it is gone or over: nothing is written any more."""
        return self._lost

    async def close(self) -> None:
        """Stop working and give the row up, so that it is taken up elsewhere; may be called twice."""
        await self._stop()
        row = self._row
        if row.status == "running" and not self._lost:
            try:
                await self._store.update_job(replace(row, lease_until=None, updated_at=now()))
            except KodaError as error:
                self._log.info("render not given up", code=error.code)

    async def wait(self) -> None:
        """Wait until there is nothing more to do here."""
        await asyncio.wait({self._running})

    async def stop(self) -> None:
        """End the work with its processes; whoever calls has seen to the row."""
        self._lost = True
        await self._stop()

    async def _stop(self) -> None:
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
                        self._log.error("render ended by an error of our own", error=repr(error))

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(self._lease.total_seconds() / _BEATS)
            try:
                await self.write(JobChange())
            except (Fenced, NotFound):  # somebody else has it, or it was deleted
                self._lost = True
                return
            except KodaError as error:  # a database that is away for a moment; the lease decides who goes on
                self._log.warning("lease not renewed", code=error.code)

    async def _work(self) -> None:
        try:
            try:
                await self._render()
            except Fenced:
                raise
            except DatabaseAway as error:  # it is not over: whoever takes it next goes on from what is stored
                self._log.warning("render left to the next", error=error.message)
            except KodaError as error:
                await self._end(error)
            except Exception as error:
                self._log.exception("render failed")
                await self._end(RenderError(f"{type(error).__name__}: {error}", code="INTERNAL"))
        except Fenced:
            self._lost = True
            self._log.info("render was taken over or cancelled")

    async def _render(self) -> None:
        with span("page render", {"koda.job": self.job_id}, parent=self.row.trace):
            await self._render_row(self.row)

    async def _render_row(self, row: JobRecord) -> None:
        if row.epoch > MAX_ACTIVATIONS:
            raise RenderError(f"the render was begun {MAX_ACTIVATIONS} times and its process ended each time")
        await self.write(JobChange(events=[_state("running")]))
        spec = await self._plan_on_a_machine(row)
        if "spec" not in row.spec:
            await self.write(JobChange(spec={**row.spec, "spec": spec.to_json()}, video_s=spec.duration_s))
        known = await self._store.charges(self.job_id)
        self._owner = JobOwner(self, spec, store=self._store, purse=self._parts.purse, charges=known)
        await self._owner.begin()
        urgent = cast("dict[str, JsonValue]", row.spec["request"]).get("preset") == "preview"
        await self._owner.run(self._parts.storage, self._parts.executor, urgent=urgent)

    async def _end(self, error: KodaError) -> None:
        used = [] if self._owner is None else [self._owner.minutes.end()]
        change = ended_by(error, self.job_id, used)
        if isinstance(error, BudgetExceeded):  # what was rendered until then is kept, and the next one finds it
            change = replace(change, charges=used if await self._store.charges(self.job_id) else [])
        await self.write(change)

    async def _plan_on_a_machine(self, row: JobRecord) -> RenderSpec:
        """Plan the video; have it told while that waits for a machine which can open the page."""
        telling = asyncio.create_task(self._tell_waiting())
        try:
            return await self._plan(row)
        finally:
            await end_all((telling,))

    async def _tell_waiting(self) -> None:
        while True:
            await asyncio.sleep(_TELL_S)
            if (waited_s := self._parts.executor.slots.empty_s) is not None:
                await JobOwner.tell_waiting(self, waited_s)

    async def _plan(self, row: JobRecord) -> RenderSpec:
        """Return the video as planned before, or plan it: what was decided once stays so through every crash."""
        planned = row.spec.get("spec")
        if isinstance(planned, dict):
            return RenderSpec.from_json(planned)
        options = JobOptions.from_json(cast("dict[str, JsonValue]", row.spec["request"]))
        bundle, entry = str(row.spec["bundle"]), str(row.spec["entry"])
        contract = PageContract()
        if needs_page(options):
            contract = await page_contract(
                options,
                bundle=bundle,
                entry=entry,
                storage=self._parts.storage,
                executor=self._parts.executor,
                user_id=row.user_id,
            )
        return make_spec(options, bundle=bundle, entry=entry, page=contract)

    async def write(self, change: JobChange) -> None:
        """Change the row, and announce it, in one transaction; renews the lease.

        Raises:
            Fenced: Somebody else has the row now.
        """
        async with self._lock:
            new = change.of(self.row)
            lease_until = None if change.status in OVER else new.updated_at + self._lease
            new = replace(new, lease_until=lease_until)
            events = [*change.events, *self._announced(change)]
            writing = asyncio.ensure_future(
                self._store.update_job(new, chunks=change.chunks, events=events, charges=change.charges)
            )
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                # memory and database must not part because whoever writes is cancelled meanwhile
                await asyncio.wait({writing})
                raise
            finally:
                if writing.done() and not writing.cancelled() and writing.exception() is None:
                    self._row = new

    def _announced(self, change: JobChange) -> list[NewEvent]:
        """Say what a stream without a session says besides: why the job failed, and that it is over."""
        if change.status is None:
            return []
        failed = change.status == "failed" and change.error is not None
        why = [NewEvent(type="error", data={"jobId": self.job_id, **(change.error or {})})] if failed else []
        return [*why, _state(change.status)]


def _state(status: JobStatus) -> NewEvent:
    return NewEvent(type="state_change", data={"status": status})
