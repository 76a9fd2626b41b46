"""One video from spec to stored file: plan, find what exists, capture what is missing, join, verify, report.

The coordinator holds no frames and starts no process; it talks to an executor and to storage, so the same code runs
under a test, in a session's actor and behind the API. What is finished is in storage under its key: a job that starts
again finds it there, and a job that was cancelled leaves nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

from pydantic import JsonValue

from koda_ray.cancellation import all_or_cancel, end_all
from koda_ray.errors import KodaError, NotFound, RenderError
from koda_ray.logs import get_logger
from koda_ray.render.collect import SeekingFails, UnitCollector, breaks
from koda_ray.render.names import film_hash
from koda_ray.render.progress import ProgressMeter
from koda_ray.render.protocol import (
    OTHER_ENVIRONMENT,
    Captured,
    Environment,
    JobContext,
    JoinResult,
    JoinTask,
    ProbeReport,
    ProbeTask,
    Progress,
    RenderResult,
    Slots,
    UnitResult,
)
from koda_ray.render.report import write_report
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.reuse import is_noted, made_before, note_made
from koda_ray.render.spec import CaptureMode, RenderSpec, plan_units
from koda_ray.render.stored import needs_replay, note_replay
from koda_ray.render.trial import Trial
from koda_ray.state.keys import bundle_key
from koda_ray.tracing import span

__all__ = ["RenderJob", "early_slots"]

_RETRY_DELAY_S = 0.2
_MAX_REJOINS = 3
_MAX_WARNINGS = 5
_ENVIRONMENTS = 3
"""How often a video is begun, with nodes that render with something else each time."""
_log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Collected:
    """Every unit, by whom it was collected, and how; ``found`` is the unit that showed that seeking fails."""

    environment: Environment
    collector: UnitCollector
    units: list[UnitResult]
    mode: CaptureMode
    found: int | None


def early_slots(slots: Slots) -> int:
    """Return how many browsers a video gets before it is certain that it is wanted: fewer than half, but one.

    The others are for what finds out, and for what others wait for. There is one more browser than processors.
    """
    return max(1, (min(slots.now, slots.urgent or slots.now) - 1) // 2)


class RenderJob:
    """Renders one video.

    Args:
        spec: The video.
        context: What the job works with.
        on_progress: Hears how far the job is, a few times a second at most.
        on_unit: Hears of each stored unit, found or made; for the job's chunk rows.
        reference: Key of another video of the same film, its preview; the report says how they compare.
    """

    def __init__(
        self,
        spec: RenderSpec,
        context: JobContext,
        *,
        on_progress: Callable[[Progress], Awaitable[None]] | None = None,
        on_unit: Callable[[UnitResult], Awaitable[None]] | None = None,
        reference: str | None = None,
    ) -> None:
        self._spec = spec
        self._context = context
        self._storage = RetryingStorage(context.storage)
        self._executor = context.executor
        self._job_id = context.job_id
        self._user_id = context.user_id
        self._on_unit = on_unit
        self._reference = reference
        self._meter = ProgressMeter(spec.frame_count, on_progress, lambda: context.executor.slots.empty_s)
        self._early: asyncio.Task[_Collected | None] | None = None
        self._trial: Trial | None = None
        self._wanted = True

    def begin_early(self, trial: ProbeTask | None = None) -> None:
        """Have units captured from now on, by some of the browsers that there are; `run` goes on with all of them.

        Whoever does not come to that has to `end` it.

        Args:
            trial: How the page is to be tried meanwhile, by one browser more, which goes on with units where it passes.
        """
        self._wanted = False
        self._trial = None if trial is None else Trial(trial)
        self._early = asyncio.create_task(self._collected_early())

    async def tried(self) -> ProbeReport | None:
        """Return what the page's trial found; None where it was not tried, since nothing had to be captured."""
        return None if self._trial is None else await self._trial.report()

    async def end(self) -> None:
        """End what was begun early and is still under way."""
        if self._early is not None:
            await end_all([self._early])

    async def run(self) -> RenderResult:
        """Render the video. Cancelling this ends every process that works for it.

        Raises:
            NotFound: There is no such bundle.
            Missing: Browser, FFmpeg or isolation is not there.
            PageError: The page threw.
            PageNotReady: The page did not become ready.
            RenderError: A unit failed as often as it may, with that failure's class and code; or the video was refused
                (QualityRejected).
            StorageError: Storage failed.
        """
        started = time.perf_counter()
        self._wanted = True
        try:
            if not await self._storage.exists(bundle_key(self._user_id, self._spec.bundle)):
                raise NotFound(f"there is no bundle {self._spec.bundle} in storage: build the project first")
            async with self._meter:
                for _ in range(_ENVIRONMENTS - 1):
                    try:
                        return await self._run(started)
                    except KodaError as error:  # nodes were replaced: what they made does not go with what is new
                        if error.code != OTHER_ENVIRONMENT:
                            raise
                        _log.info("begun anew on other nodes", job_id=self._job_id)
                        self._early = None  # it has ended, with this error or for another environment
                return await self._run(started)
        finally:
            await self.end()

    async def _run(self, started: float) -> RenderResult:
        environment = await self._executor.environment()
        film = film_hash(self._spec, environment=environment.fingerprint)
        made = await made_before(self._storage, user_id=self._user_id, film=film, job_id=self._job_id)
        if made is not None:
            self._meter.found(made.frame_count)
            await self._meter.stage("uploading", 0.99)
            await self._meter.done()
            return made
        result = await self._make(environment, started)
        await note_made(self._storage, user_id=self._user_id, film=film, job_id=self._job_id, result=result)
        await self._meter.done()
        return result

    def _slots(self) -> Slots:
        slots = self._executor.slots
        if self._wanted:
            return slots
        tries = self._trial is not None and not self._trial.is_forgone
        return replace(slots, now=early_slots(slots) + tries)

    async def _collected_early(self) -> _Collected | None:
        try:
            return await self._captured_early()
        finally:
            if self._trial is not None:
                self._trial.forgo()

    async def _captured_early(self) -> _Collected | None:
        environment = await self._executor.environment()
        film = film_hash(self._spec, environment=environment.fingerprint)
        if await is_noted(self._storage, user_id=self._user_id, film=film):
            return None
        return await self._collected(environment)

    async def _collected(self, environment: Environment) -> _Collected:
        collector = UnitCollector(
            self._spec,
            self._context,
            environment=environment,
            meter=self._meter,
            on_unit=self._on_unit,
            slots=self._slots,
        )
        collector.trial = self._trial
        mode: CaptureMode = "replay" if await self._needs_replay(collector) else "seek"
        found: int | None = None
        try:
            units = await collector.collect(mode)
        except SeekingFails as failure:
            found = failure.unit
            await note_replay(self._storage, self._user_id, self._spec.bundle)
            mode = "replay"
            units = await collector.collect(mode)
        await collector.siblings(mode).note()  # the next bundle's units may be these, also where this video is refused
        return _Collected(environment=environment, collector=collector, units=units, mode=mode, found=found)

    async def _needs_replay(self, collector: UnitCollector) -> bool:
        """Whether it is known that the page does not restore its state: of its bundle, or of one with the same page."""
        # played until the last unit, a page has asked for all that it asks for
        noted, shown = await asyncio.gather(
            needs_replay(self._storage, self._user_id, self._spec.bundle),
            collector.siblings("replay").show(plan_units(self._spec)[-1]),
        )
        if shown and not noted:
            await note_replay(self._storage, self._user_id, self._spec.bundle)
        return noted or shown

    async def _make(self, environment: Environment, started: float) -> RenderResult:
        made = None if self._early is None else await self._early
        if made is None or made.environment.fingerprint != environment.fingerprint:  # it was asked anew meanwhile
            made = await self._collected(environment)
        collector, units, mode, found = made.collector, made.units, made.mode, made.found
        captured_s = time.perf_counter() - started
        units, joined = await self._join(collector, units)
        await self._meter.stage("uploading", 0.99)
        report = self._report(environment, units, joined, replayed=mode == "replay", found=found)
        report["failures"] = list[JsonValue](collector.failures)
        report["seconds"] = {
            "capture": round(captured_s, 3),
            "total": round(time.perf_counter() - started, 3),
            **{name: round(ms / 1000, 3) for name, ms in joined.timings_ms.items()},
        }
        await write_report(self._storage, self._user_id, self._job_id, report)
        return RenderResult(
            video_key=joined.video_key,
            thumbnail_key=joined.thumbnail_key,
            duration_s=joined.duration_s,
            frame_count=joined.frame_count,
            width=self._spec.picture[0],
            height=self._spec.picture[1],
            size_bytes=joined.size_bytes,
            frame_hash=_digest(units),
            report=report,
        )

    async def _join(self, collector: UnitCollector, units: list[UnitResult]) -> tuple[list[UnitResult], JoinResult]:
        attempt = 1
        while True:
            await self._meter.stage("joining", 0.94)
            task = JoinTask(
                storage=self._storage.once,
                user_id=self._user_id,
                job_id=self._job_id,
                spec=self._spec,
                units=tuple(units),
                reference=self._reference,
                urgent=self._context.urgent,
            )
            try:
                with span("join", {"koda.job": self._job_id, "koda.attempt": attempt}):
                    joined = await self._executor.join(task)
            except KodaError as error:
                collector.failures.append(f"join, attempt {attempt}: {error.code}: {error.message}")
                if not error.retryable or attempt >= self._context.attempts:
                    raise
                attempt += 1
                await asyncio.sleep(_RETRY_DELAY_S)
                continue
            if not joined.torn:
                return units, joined
            collector.failures += [f"unit {key} was torn in storage and is captured again" for key in joined.torn]
            if attempt >= _MAX_REJOINS:
                raise RenderError(f"units are damaged in storage as soon as they are written: {', '.join(joined.torn)}")
            attempt += 1
            torn = set(joined.torn)
            fresh: dict[str, UnitResult] = {}

            async def keep(told: Captured | UnitResult, fresh: dict[str, UnitResult] = fresh) -> None:
                if isinstance(told, UnitResult):
                    fresh[told.key] = told

            lost = [unit for unit in units if unit.key in torn]
            await all_or_cancel([collector.capture([unit.unit], unit.mode, keep) for unit in lost])
            units = [fresh.get(unit.key, unit) for unit in units]

    def _report(
        self,
        environment: Environment,
        units: Sequence[UnitResult],
        joined: JoinResult,
        *,
        replayed: bool,
        found: int | None,
    ) -> dict[str, JsonValue]:
        report: dict[str, object] = {
            "spec": self._spec.to_json(),
            "environment": asdict(environment),
            "frames": joined.frame_count,
            "durationS": joined.duration_s,
            "frameHash": _digest(units),
            "still": joined.frame_count > 1 and len({frame for unit in units for frame in unit.frame_hashes}) == 1,
            "sha256": joined.sha256,
            "sizeBytes": joined.size_bytes,
            "quality": joined.quality,
            "replayed": replayed,
            "replayedBecauseOfUnit": found,
            "unstableUnits": [unit.unit.index for before, unit in itertools.pairwise(units) if breaks(before, unit)],
            "pageWarnings": list(dict.fromkeys(told for unit in units for told in unit.warnings))[:_MAX_WARNINGS],
            "unitsReused": sum(unit.reused for unit in units),
            "unitsAdopted": sum(unit.adopted for unit in units),
            "unitsTakenOver": sum(unit.alike for unit in units),
            "units": [
                {
                    "index": unit.unit.index,
                    "start": unit.unit.start,
                    "stop": unit.unit.stop,
                    "key": unit.key,
                    "mode": unit.mode,
                    "reused": unit.reused,
                    "attempts": unit.attempts,
                    "still": unit.still,
                    "sizeBytes": unit.size_bytes,
                    "worker": unit.worker,
                    "ms": unit.timings_ms,
                }
                for unit in units
            ],
        }
        return cast("dict[str, JsonValue]", report)


def _digest(units: Sequence[UnitResult]) -> str:
    digest = hashlib.sha256()
    for unit in units:
        for frame in unit.frame_hashes:
            digest.update(frame.encode() + b"\n")
    return digest.hexdigest()
