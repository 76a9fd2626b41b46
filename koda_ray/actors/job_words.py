"""What a render job says of itself, in rows and in events, whoever owns it: a session, or nobody but its user."""

from __future__ import annotations

import time

from pydantic import JsonValue

from koda_ray.render.protocol import Progress, RenderResult, UnitResult
from koda_ray.render.spec import RenderSpec
from koda_ray.state.keys import unit_key
from koda_ray.state.records import ChunkRecord, JobRecord
from koda_ray.types import now

__all__ = ["ProgressPace", "chunk_of", "progress_words", "result_words", "start_words", "waiting_words"]

_TELL_EVERY_S = 0.4


class ProgressPace:
    """Tells when progress is announced: when the stage changes, and otherwise no more often than every 0.4 seconds."""

    def __init__(self) -> None:
        self._at = 0.0
        self._stage = ""

    def is_due(self, progress: Progress) -> bool:
        """Whether this is to be announced; then the next is not, for a while."""
        if progress.stage == self._stage and time.monotonic() - self._at < _TELL_EVERY_S:
            return False
        self._at, self._stage = time.monotonic(), progress.stage
        return True


def start_words(spec: RenderSpec) -> dict[str, JsonValue]:
    """Say what will be made: sizes in pixels, the duration in seconds."""
    return {
        "frames": spec.frame_count,
        "width": spec.picture[0],
        "height": spec.picture[1],
        "fps": spec.rate,
        "duration": spec.seconds(spec.frame_count),
        "format": spec.format,
    }


def progress_words(progress: Progress, *, watchable_s: float = 0.0) -> dict[str, JsonValue]:
    """Say how far a job is; so many seconds of the video stand without a gap, from its beginning."""
    return {
        "percent": round(progress.percent, 1),
        "stage": progress.stage,
        "framesDone": progress.frames_done,
        "framesTotal": progress.frames_total,
        "framesPerS": _rounded(progress.frames_per_s),
        "secondsLeft": _rounded(progress.seconds_left),
        "watchableS": watchable_s,
        **({} if progress.waited_s is None else {"waitedS": progress.waited_s}),
    }


def waiting_words(waited_s: float) -> dict[str, JsonValue]:
    """Say that a job waits for a machine before it is known what it will make."""
    return {"percent": 0.0, "stage": "waiting", "waitedS": float(round(waited_s))}


def chunk_of(row: JobRecord, unit: UnitResult) -> ChunkRecord:
    """Make the row of a unit that is done."""
    return ChunkRecord(
        job_id=row.id,
        user_id=row.user_id,
        unit=unit.unit.index,
        start=unit.unit.start,
        stop=unit.unit.stop,
        key=unit_key(row.user_id, unit.key),
        status="done",
        attempts=unit.attempts,
        total_bytes=unit.size_bytes,
        wall_ms=round(unit.timings_ms.get("total", 0.0)),
        worker=unit.worker,
        created_at=now(),
    )


def result_words(result: RenderResult, spec: RenderSpec) -> dict[str, JsonValue]:
    """Say what was made, and where it lies."""
    return {
        "videoKey": result.video_key,
        "thumbnailKey": result.thumbnail_key,
        "duration": result.duration_s,
        "frames": result.frame_count,
        "width": result.width,
        "height": result.height,
        "fps": spec.rate,
        "format": spec.format,
        "fileSize": result.size_bytes,
        "frameHash": result.frame_hash,
        "still": result.report.get("still") is True,
        "warnings": result.report["pageWarnings"],
        "unitsTakenOver": result.report.get("unitsTakenOver", 0),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
