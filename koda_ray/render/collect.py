"""Every unit of a video: found in storage, captured in tasks, or awaited from another job that captures it now.

Units are looked up by key before any is captured, so what was finished once is never made again. Tasks are cut as
`koda_ray.render.plan` says, tried again where that may help, and never hold more units than their workers need.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from koda_ray.cancellation import end_all
from koda_ray.errors import KodaError, RenderError
from koda_ray.render.claims import Claims
from koda_ray.render.inputs import Siblings
from koda_ray.render.names import grid_hash, unit_hash
from koda_ray.render.plan import CostModel, next_units, tasks_at_once, tasks_left
from koda_ray.render.progress import ProgressMeter
from koda_ray.render.protocol import (
    NODE_DIFFERS,
    NODE_FULL,
    Captured,
    CaptureTask,
    Environment,
    Hear,
    JobContext,
    PageTried,
    Slots,
    UnitResult,
)
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.spec import CaptureMode, RenderSpec, Unit, plan_units
from koda_ray.render.stored import fits, read_unit
from koda_ray.render.trial import Trial, TrialFails
from koda_ray.tracing import ended_span, span

__all__ = ["SeekingFails", "UnitCollector", "breaks"]

_LOOKUPS = 16
_RETRY_DELAY_S = 0.2
_OTHERS_POLL_S = 0.3
_LOOK_S = 0.25
"""How often, in seconds, it is looked whether more tasks can be under way, or fewer: machines come and go."""


class SeekingFails(Exception):
    """The page shows another picture when it is sought than when it is played."""

    def __init__(self, unit: int) -> None:
        super().__init__(unit)
        self.unit = unit


class UnitCollector:
    """Collects a video's units for one job.

    Args:
        spec: The video.
        context: What the job works with.
        environment: What its executor captures with.
        meter: Hears how many frames are there.
        on_unit: Hears of each unit, found or made, once.
        slots: Says how many tasks may run at once now.

    Attributes:
        failures: What went wrong on the way, in words.
        trial: How one of its tasks tries the page first; None where that is done already, or elsewhere.
        before: Units of the bundle before, in the places of those that are missing.
    """

    def __init__(
        self,
        spec: RenderSpec,
        context: JobContext,
        *,
        environment: Environment,
        meter: ProgressMeter,
        on_unit: Callable[[UnitResult], Awaitable[None]] | None,
        slots: Callable[[], Slots],
    ) -> None:
        self._spec = spec
        self._context = context
        self._storage = RetryingStorage(context.storage)
        self._executor = context.executor
        self._environment = environment
        self._job_id = context.job_id
        self._user_id = context.user_id
        self._meter = meter
        self._on_unit = on_unit
        self._slots = slots
        self._told: set[str] = set()
        self._siblings: dict[CaptureMode, Siblings] = {}
        self.trial: Trial | None = None
        self.before: dict[int, UnitResult] = {}
        self.failures: list[str] = []

    async def collect(self, mode: CaptureMode) -> list[UnitResult]:
        """Return every unit of the video, in order.

        Raises:
            SeekingFails: Two neighbours do not meet, and the units were sought; what was under way has ended.
            TrialFails: The page was tried, and has problems.
            KodaError: A unit failed as often as it may, or in a way that would only repeat.
        """
        await self._meter.restart()
        grid = grid_hash(self._spec, environment=self._environment.fingerprint, mode=mode)
        claims = Claims(self._storage, user_id=self._user_id, job_id=self._job_id, grid=grid)
        return await _Pass(self, mode, claims).run()

    async def capture(
        self, units: Sequence[Unit], mode: CaptureMode, hear: Hear, *, at_once: int = 1, trial: Trial | None = None
    ) -> None:
        """Capture units in one task, of so many at once; those that were not stored again where that may help.

        Raises:
            TrialFails: As `collect`.
            KodaError: As `collect`; or what ``hear`` raised.
        """
        left = list(units)
        tried: dict[int, int] = {}
        refused: list[BaseException] = []

        async def listen(told: Captured | UnitResult) -> None:
            if isinstance(told, PageTried) and trial is not None:
                trial.told(told.report)
                if told.report.problems:
                    raise TrialFails
            try:
                await hear(told)
            except BaseException as error:
                refused.append(error)
                raise
            if isinstance(told, UnitResult):
                left.remove(told.unit)
                _trace_unit(told)

        while left:
            first = left[0]
            attempt = tried[first.index] = tried.get(first.index, 0) + 1
            try:
                which = {"koda.job": self._job_id, "koda.first_unit": first.index, "koda.attempt": attempt}
                with span("capture", which):
                    first_tried = None if trial is None or trial.is_over else trial.task
                    # what failed once is not looked at again, but captured
                    before = [self.before[unit.index] for unit in left if unit.index in self.before and attempt == 1]
                    task = self._task(left, mode, attempt)
                    task = replace(task, at_once=at_once, trial=first_tried, before=tuple(before))
                    await self._executor.capture(task, listen)
            except KodaError as error:
                if trial is None and self.trial is not None:  # what is found there says more than this
                    await self.trial.over()
                if refused:  # not the worker's fault: whoever listens has had enough
                    raise
                failing = left[0] if left else first
                self.failures.append(f"unit {failing.index}, attempt {attempt}: {error.code}: {error.message}")
                if not error.retryable:
                    raise
                if error.code in (
                    NODE_FULL,
                    NODE_DIFFERS,
                ):  # nothing was tried: each time there is a node less to do so
                    tried[first.index] -= 1
                elif failing is not first:  # it was begun, and that was an attempt
                    tried[failing.index] = tried.get(failing.index, 0) + 1
                elif attempt >= self._context.attempts:
                    raise _gave_up(error, first, attempt) from error
            else:
                if left:
                    raise RenderError(f"units {[unit.index for unit in left]} were not captured, and nobody said why")
                return
            for unit in left:
                self._meter.captured(unit.index, 0)
            await asyncio.sleep(_RETRY_DELAY_S * attempt)

    def key(self, unit: Unit, mode: CaptureMode) -> str:
        """Return the name of a unit's bytes; the first unit begins at frame 0 in both modes."""
        how = mode if unit.start else "seek"
        return unit_hash(self._spec, unit, environment=self._environment.fingerprint, mode=how)

    async def find(self, unit: Unit, mode: CaptureMode) -> UnitResult | None:
        """Look a unit up in storage."""
        found = await read_unit(self._storage, self._user_id, self.key(unit, mode))
        return None if found is None or not fits(self._spec, found) else replace(found, unit=unit).as_told()

    def siblings(self, mode: CaptureMode) -> Siblings:
        """Return the videos that differ from this one in their bundle alone."""
        if mode not in self._siblings:
            self._siblings[mode] = Siblings(
                storage=self._storage,
                user_id=self._user_id,
                spec=self._spec,
                environment=self._environment.fingerprint,
                mode=mode,
            )
        return self._siblings[mode]

    async def tell(self, unit: UnitResult) -> None:
        """Tell of a unit, once."""
        if self._on_unit is not None and unit.key not in self._told:
            self._told.add(unit.key)
            await self._on_unit(unit)

    @property
    def spec(self) -> RenderSpec:
        """The video."""
        return self._spec

    @property
    def meter(self) -> ProgressMeter:
        """Who hears how many frames are there."""
        return self._meter

    @property
    def slots(self) -> Slots:
        """How many tasks run at once now."""
        return self._slots()

    @property
    def workers(self) -> int:
        """Among how many tasks its units are shared in the end, however many run now."""
        return self._executor.slots.now

    def _task(self, units: Sequence[Unit], mode: CaptureMode, attempt: int) -> CaptureTask:
        return CaptureTask(
            storage=self._storage.once,
            user_id=self._user_id,
            job_id=self._job_id,
            spec=self._spec,
            units=tuple(units),
            keys=tuple(self.key(unit, mode) for unit in units),
            mode=mode,
            environment=self._environment.fingerprint,
            attempt=attempt,
            urgent=self._context.urgent,
        )


class _Pass:
    """One pass over all units, in one mode."""

    def __init__(self, collector: UnitCollector, mode: CaptureMode, claims: Claims) -> None:
        self._collector = collector
        self._mode: CaptureMode = mode
        self._claims = claims
        self._cost = CostModel(collector.spec)
        self._done: dict[int, UnitResult] = {}
        self._missing: list[Unit] = []
        self._elsewhere: dict[int, Unit] = {}
        self._at_once = 1
        self._cuts = 0
        self._busy = 0
        self._crew: set[asyncio.Task[None]] = set()
        self._asking = asyncio.Lock()
        self._lookups = asyncio.Semaphore(_LOOKUPS)

    async def run(self) -> list[UnitResult]:
        plan = plan_units(self._collector.spec)
        missing: list[Unit] = []
        for unit, found in zip(plan, await self._look(plan), strict=True):
            if found is None:
                missing.append(unit)
            else:
                await self._found(found)
        for adopted in await self._collector.siblings(self._mode).adopt(missing):
            await self._found(adopted)
        self._missing = [unit for unit in missing if unit.index not in self._done]
        if self._mode == "seek":
            before = await self._collector.siblings(self._mode).before(self._missing)
            self._collector.before = {unit.unit.index: unit for unit in before}
        if self._missing:
            async with self._claims:
                await self._share(plan)
        return [self._done[unit.index] for unit in plan]

    async def _share(self, plan: Sequence[Unit]) -> None:
        """Have tasks under way until every unit is there, as many as the executor has slots for at each time."""
        try:
            while self._crew or len(self._done) < len(plan):
                left = sum(unit.frame_count for unit in plan if unit.index not in self._done)
                self._at_once = tasks_at_once(left, self._collector.slots, self._cost)
                wanted = min(self._at_once, max(1, len(self._crew) + len(self._missing)))
                self._crew |= {asyncio.create_task(self._work()) for _ in range(wanted - len(self._crew))}
                over, _ = await asyncio.wait(self._crew, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                for task in over:
                    task.result()
                self._crew -= over
        finally:
            await end_all(self._crew)

    async def _look(self, units: Sequence[Unit]) -> list[UnitResult | None]:
        """Look units up in storage, a bounded number at a time."""

        async def look(unit: Unit) -> UnitResult | None:
            async with self._lookups:
                return await self._collector.find(unit, self._mode)

        return await asyncio.gather(*map(look, units))

    async def _work(self) -> None:
        while (self._missing or self._elsewhere) and len(self._crew) <= self._at_once:
            trial = self._collector.trial
            if not self._missing:
                if trial is not None:  # others capture this page, and may take long
                    trial.forgo(taken=False)
                await self._ask_others()
                continue
            units = next_units(self._missing, workers=self._workers, cost=self._cost)
            del self._missing[: len(units)]
            self._cuts += 1
            if trial is not None and self._cuts == 1 and not self._missing:  # it is tried elsewhere, beside this
                trial.forgo(taken=False)
            first = self._cuts == 1  # whose units are not held up
            self._busy += 1
            try:
                mine = await self._mine(units)
                if mine:
                    await self._capture(mine, None if trial is None or first else trial.take())
            finally:
                self._busy -= 1

    async def _capture(self, mine: Sequence[Unit], trial: Trial | None) -> None:
        try:
            await self._collector.capture(mine, self._mode, self._hear, at_once=self._pages, trial=trial)
        finally:
            if trial is not None:
                trial.let_go()

    @property
    def _workers(self) -> int:
        return max(1, self._collector.workers)

    @property
    def _pages(self) -> int:
        """How many tasks are under way at once from now on: fewer than there might be, where not so many are left."""
        others = len(self._crew) - self._busy
        return self._busy + tasks_left(self._missing, workers=self._workers, cost=self._cost, most=max(0, others))

    async def _mine(self, units: Sequence[Unit]) -> list[Unit]:
        """Claim units; return the first run that is ours and still missing, and keep the rest for later.

        Between the first look and the claim another job may have captured them and given its own claims up: so what was
        claimed is looked up once more.
        """
        ours = await self._claims.take(unit.index for unit in units)
        for unit in units:
            if unit.index not in ours:
                self._elsewhere[unit.index] = unit
        claimed = [unit for unit in units if unit.index in ours]
        for unit, found in zip(claimed, await self._look(claimed), strict=True):
            if found is not None:
                ours.discard(unit.index)
                self._claims.give_up(unit.index)
                await self._found(found)
        run: list[Unit] = []
        for unit in units:
            if unit.index not in ours:
                continue
            if run and unit.index != run[-1].index + 1:
                self._claims.give_up(unit.index)
                self._give_back(unit)
                continue
            run.append(unit)
        return run

    async def _ask_others(self) -> None:
        """Fetch what another job has finished meanwhile, and take over what it no longer claims."""
        async with self._asking:
            if not self._elsewhere or self._missing:
                return
            claimed = await self._claims.others()
            for unit in tuple(self._elsewhere.values()):
                found = await self._collector.find(unit, self._mode)
                if found is not None:
                    del self._elsewhere[unit.index]
                    await self._found(found)
                elif unit.index not in claimed:
                    del self._elsewhere[unit.index]
                    self._give_back(unit)
            if not self._missing:
                await asyncio.sleep(_OTHERS_POLL_S)

    def _give_back(self, unit: Unit) -> None:
        self._missing.append(unit)
        self._missing.sort(key=lambda one: one.index)

    async def _found(self, unit: UnitResult) -> None:
        self._collector.meter.found(unit.unit.frame_count)
        self._cost.stepped = not unit.sought or self._mode == "replay"
        await self._there(unit)

    async def _hear(self, told: Captured | UnitResult) -> None:
        if isinstance(told, Captured):
            self._collector.meter.captured(told.unit, told.frames)
            return
        self._cost.stepped = not told.sought or self._mode == "replay"
        self._collector.meter.captured(told.unit.index, told.unit.frame_count)  # the last counts may not have come
        if not told.alike:
            self._cost.learn(told.unit.frame_count, told.timings_ms.get("capture", 0.0) / 1000)
        self._claims.give_up(told.unit.index)
        await self._there(told)

    async def _there(self, unit: UnitResult) -> None:
        done, index = self._done, unit.unit.index
        done[index] = unit
        await self._collector.tell(unit)
        if self._mode == "seek":
            for before, after in itertools.pairwise(done.get(index + step) for step in (-1, 0, 1)):
                # a page without the contract was played already: playing it again would show the same
                if before is not None and after is not None and after.sought and breaks(before, after):
                    raise SeekingFails(after.unit.index)


def _trace_unit(unit: UnitResult) -> None:
    ids = {"koda.unit": unit.unit.index, "koda.frames": unit.unit.frame_count, "koda.worker": unit.worker}
    ended_span("unit", ids, took_s=unit.timings_ms.get("total", 0.0) / 1000)


def breaks(before: UnitResult, unit: UnitResult) -> bool:
    """Whether a unit was begun from another picture than the one before it ended with."""
    return unit.before_hash is not None and unit.before_hash != before.frame_hashes[-1]


def _gave_up(error: KodaError, unit: Unit, attempts: int) -> KodaError:
    return type(error)(
        f"unit {unit.index} (frames {unit.start} to {unit.stop - 1}) failed {attempts} times, "
        f"last with {error.code}: {error.message}",
        code=error.code,
        context={**error.context, "unit": unit.index, "attempts": attempts},
        retryable=False,
    )
