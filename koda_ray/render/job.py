"""One video from spec to stored file: plan, find what exists, capture what is missing, join, verify, report.

The coordinator holds no frames and starts no process; it talks to an executor and to storage, so the same code runs
under a test, in a session's actor and behind the API. What is finished is in storage under its key: a job that starts
again finds it there, and a job that was cancelled leaves nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from typing import cast

from pydantic import JsonValue

from koda_ray.errors import KodaError, NotFound, RenderError
from koda_ray.render.owned import all_or_cancel
from koda_ray.render.plan import CostModel, next_units
from koda_ray.render.progress import ProgressMeter
from koda_ray.render.protocol import (
    Captured,
    CaptureTask,
    Environment,
    Hear,
    JoinResult,
    JoinTask,
    Progress,
    RenderExecutor,
    RenderResult,
    UnitResult,
)
from koda_ray.render.spec import CaptureMode, RenderSpec, Unit, plan_units, unit_hash
from koda_ray.render.stored import needs_replay, note_replay, read_unit
from koda_ray.state.storage import Storage, bundle_key, report_key

__all__ = ["RenderJob"]

_LOOKUPS = 16
_RETRY_DELAY_S = 0.2
_MAX_REJOINS = 3


class _SeekingFails(Exception):
    """The page shows another picture when it is sought than when it is played."""

    def __init__(self, unit: int) -> None:
        super().__init__(unit)
        self.unit = unit


class RenderJob:
    """Renders one video.

    Args:
        spec: The video.
        storage: Where the bundle lies, and where units and the video go.
        executor: Who does the work.
        job_id: Names the video's objects.
        user_id: Whose they are.
        on_progress: Hears how far the job is, a few times a second at most.
        on_unit: Hears of each stored unit, found or made; for the job's chunk rows.
        attempts: How often a unit or the join is tried before its error ends the job.
    """

    def __init__(
        self,
        spec: RenderSpec,
        *,
        storage: Storage,
        executor: RenderExecutor,
        job_id: str,
        user_id: str,
        on_progress: Callable[[Progress], Awaitable[None]] | None = None,
        on_unit: Callable[[UnitResult], Awaitable[None]] | None = None,
        attempts: int = 3,
    ) -> None:
        self._spec = spec
        self._storage = storage
        self._executor = executor
        self._job_id = job_id
        self._user_id = user_id
        self._on_unit = on_unit
        self._attempts = attempts
        self._meter = ProgressMeter(spec.frame_count, on_progress)
        self._failures: list[str] = []
        self._told: set[str] = set()

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
        if not await self._storage.exists(bundle_key(self._user_id, self._spec.bundle)):
            raise NotFound(f"there is no bundle {self._spec.bundle} in storage: build the project first")
        environment = await self._executor.environment()
        async with self._meter:
            known = await needs_replay(self._storage, self._user_id, self._spec.bundle)
            mode: CaptureMode = "replay" if known else "seek"
            found: int | None = None
            try:
                units = await self._capture_all(environment, mode)
            except _SeekingFails as failure:
                found = failure.unit
                await note_replay(self._storage, self._user_id, self._spec.bundle)
                mode = "replay"
                units = await self._capture_all(environment, mode)
            captured_s = time.perf_counter() - started
            units, joined = await self._join(environment, units)
            await self._meter.stage("uploading", 0.99)
            report = self._report(environment, units, joined, replayed=mode == "replay", found=found)
            report["seconds"] = {
                "capture": round(captured_s, 3),
                "total": round(time.perf_counter() - started, 3),
                **{name: round(ms / 1000, 3) for name, ms in joined.timings_ms.items()},
            }
            await self._storage.put(report_key(self._user_id, self._job_id), json.dumps(report, indent=1).encode())
            await self._meter.done()
        return RenderResult(
            video_key=joined.video_key,
            thumbnail_key=joined.thumbnail_key,
            duration_s=joined.duration_s,
            frame_count=joined.frame_count,
            width=self._spec.width,
            height=self._spec.height,
            size_bytes=joined.size_bytes,
            frame_hash=_digest(units),
            report=report,
        )

    async def _capture_all(self, environment: Environment, mode: CaptureMode) -> list[UnitResult]:
        """Return every unit of the video, from storage where it is there.

        Raises:
            _SeekingFails: Two neighbours do not meet, and the units were sought; what was under way has ended.
        """
        plan = plan_units(self._spec)
        await self._meter.restart()
        gate = asyncio.Semaphore(_LOOKUPS)

        async def look(unit: Unit) -> tuple[Unit, UnitResult | None]:
            key = self._key(environment, unit, mode)
            async with gate:
                return unit, await read_unit(self._storage, self._user_id, key)

        async def tell(unit: UnitResult) -> None:
            if self._on_unit is not None and unit.key not in self._told:
                self._told.add(unit.key)
                await self._on_unit(unit)
            if mode == "seek":
                for before, after in itertools.pairwise(done.get(unit.unit.index + step) for step in (-1, 0, 1)):
                    if before is not None and after is not None and _breaks(before, after):
                        raise _SeekingFails(after.unit.index)

        done: dict[int, UnitResult] = {}
        missing: list[Unit] = []
        for unit, found in await asyncio.gather(*map(look, plan)):
            if found is None:
                missing.append(unit)
                continue
            done[unit.index] = replace(found, unit=unit)
            self._meter.found(unit.frame_count)
            await tell(done[unit.index])
        cost = CostModel(self._spec)
        attempts: dict[int, int] = {}

        async def hear(told: Captured | UnitResult) -> None:
            if isinstance(told, Captured):
                self._meter.captured(told.unit, told.frames)
                return
            cost.learn(told.unit.frame_count, told.timings_ms.get("capture", 0.0) / 1000)
            done[told.unit.index] = told
            await tell(told)

        async def work() -> None:
            while missing:
                units = next_units(missing, workers=max(1, self._executor.workers), cost=cost)
                del missing[: len(units)]
                await self._capture(environment, units, mode, hear, attempts)

        missing.sort(key=lambda unit: unit.index)
        await all_or_cancel([work() for _ in range(min(len(missing), max(1, self._executor.workers)))])
        return [done[unit.index] for unit in plan]

    def _key(self, environment: Environment, unit: Unit, mode: CaptureMode) -> str:
        # the first unit begins at frame 0 in both modes
        return unit_hash(self._spec, unit, environment=environment.fingerprint, mode=mode if unit.start else "seek")

    async def _capture(
        self, environment: Environment, units: Sequence[Unit], mode: CaptureMode, hear: Hear, attempts: dict[int, int]
    ) -> None:
        """Capture units; those that were not stored again where that may help."""
        left = list(units)
        refused: list[BaseException] = []

        async def listen(told: Captured | UnitResult) -> None:
            try:
                await hear(told)
            except BaseException as error:
                refused.append(error)
                raise
            if isinstance(told, UnitResult):
                left.remove(told.unit)

        while left:
            first = left[0]
            attempts[first.index] = attempt = attempts.get(first.index, 0) + 1
            task = CaptureTask(
                storage=self._storage,
                user_id=self._user_id,
                job_id=self._job_id,
                spec=self._spec,
                units=tuple(left),
                keys=tuple(self._key(environment, unit, mode) for unit in left),
                mode=mode,
                environment=environment.fingerprint,
                attempt=attempt,
            )
            try:
                await self._executor.capture(task, listen)
            except KodaError as error:
                if refused:  # not the worker's fault: whoever listens has had enough
                    raise
                self._failures.append(f"unit {left[0].index if left else first.index}: {error.code}: {error.message}")
                if not error.retryable:
                    raise
                failing = left[0] if left else first
                if failing is first and attempt >= self._attempts:
                    raise _gave_up(error, first, attempt) from error
            else:
                if left:
                    raise RenderError(f"units {[unit.index for unit in left]} were not captured, and nobody said why")
                return
            for unit in left:
                self._meter.captured(unit.index, 0)
            await asyncio.sleep(_RETRY_DELAY_S * attempt)

    async def _join(self, environment: Environment, units: list[UnitResult]) -> tuple[list[UnitResult], JoinResult]:
        attempt = 1
        while True:
            await self._meter.stage("joining", 0.94)
            task = JoinTask(
                storage=self._storage, user_id=self._user_id, job_id=self._job_id, spec=self._spec, units=tuple(units)
            )
            try:
                joined = await self._executor.join(task)
            except KodaError as error:
                self._failures.append(f"join, attempt {attempt}: {error.code}: {error.message}")
                if not error.retryable or attempt >= self._attempts:
                    raise
                attempt += 1
                await asyncio.sleep(_RETRY_DELAY_S)
                continue
            if not joined.torn:
                return units, joined
            self._failures += [f"unit {key} was torn in storage and is captured again" for key in joined.torn]
            if attempt >= _MAX_REJOINS:
                raise RenderError(f"units are damaged in storage as soon as they are written: {', '.join(joined.torn)}")
            attempt += 1
            torn = set(joined.torn)
            fresh: dict[str, UnitResult] = {}

            async def keep(told: Captured | UnitResult, fresh: dict[str, UnitResult] = fresh) -> None:
                if isinstance(told, UnitResult):
                    fresh[told.key] = told

            attempts: dict[int, int] = {}
            lost = [unit for unit in units if unit.key in torn]
            await all_or_cancel([self._capture(environment, [unit.unit], unit.mode, keep, attempts) for unit in lost])
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
            "sha256": joined.sha256,
            "sizeBytes": joined.size_bytes,
            "replayed": replayed,
            "replayedBecauseOfUnit": found,
            "unstableUnits": [unit.unit.index for before, unit in itertools.pairwise(units) if _breaks(before, unit)],
            "failures": self._failures,
            "unitsReused": sum(unit.reused for unit in units),
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


def _breaks(before: UnitResult, unit: UnitResult) -> bool:
    """Whether a unit was begun from another picture than the one before it ended with."""
    return unit.before_hash is not None and unit.before_hash != before.frame_hashes[-1]


def _digest(units: Sequence[UnitResult]) -> str:
    digest = hashlib.sha256()
    for unit in units:
        for frame in unit.frame_hashes:
            digest.update(frame.encode() + b"\n")
    return digest.hexdigest()


def _gave_up(error: KodaError, unit: Unit, attempts: int) -> KodaError:
    return type(error)(
        f"unit {unit.index} (frames {unit.start} to {unit.stop - 1}) failed {attempts} times, "
        f"last with {error.code}: {error.message}",
        code=error.code,
        context={**error.context, "unit": unit.index, "attempts": attempts},
        retryable=False,
    )
