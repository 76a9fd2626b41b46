"""A video sent while it is rendered: unit after unit, as soon as each is stored, in one answer that a player plays.

Reads the job's rows and storage, so it needs no word with whoever renders, and goes on where another takes that over.
It sends what stands without a gap from the beginning, waits for more, and ends with the last frame, or when the job
does. Sound comes with the finished video.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from koda_ray.actors.leased_job import OVER
from koda_ray.errors import Conflict, EncodeFailed, NotFound
from koda_ray.logs import get_logger
from koda_ray.render.fragments import EMPTY_BOX, fragment_of, padding_after
from koda_ray.render.spec import RenderSpec
from koda_ray.serve.decoding import as_file
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.views import spec_of
from koda_ray.state.records import ChunkRecord, JobRecord

__all__ = ["Footage", "check_watchable"]

_log = get_logger(__name__)
_LOOK_S = 1.0
"""A unit that is stored is told of with the next word about how far its job is; where none comes, it is looked for."""
_SILENT_S = 15.0
"""Who stands between may end a connection on which nothing passes: so often there is a word without meaning."""


def check_watchable(job: JobRecord) -> None:
    """Refuse a video that cannot be watched before it is finished.

    Raises:
        Conflict: NOT_WATCHABLE.
    """
    spec = spec_of(job)
    if job.status in ("failed", "cancelled"):
        why = f"it is {job.status}: render it again (POST /v1/jobs/{job.id}/again)"
    elif spec is not None and spec.format != "mp4":
        why = f"it becomes a {spec.format}, and only an mp4 can be watched so: wait until it is finished"
    else:
        return
    raise Conflict(
        f"render {job.id} cannot be watched while it is made: {why}",
        code="NOT_WATCHABLE",
        context={"status": job.status, "format": None if spec is None else spec.format},
    )


class Footage:
    """Sends videos that are being rendered.

    Args:
        at_once: How many fragments are made at a time: each is a short run of FFmpeg's, beside the renders.
    """

    def __init__(self, *, at_once: int = 2) -> None:
        self._turns = asyncio.Semaphore(at_once)

    async def follow(self, deps: ApiDeps, job: JobRecord) -> AsyncGenerator[bytes]:
        """Yield the fragments of a job's video, those that are stored at once and the others as they come.

        Ends early, with a whole fragment, where the job ends without its video or is deleted, where a unit was swept,
        and where this server is about to stop.
        """
        sent, units, size, changed = 0, 0, 0, asyncio.Event()
        clock = asyncio.get_running_loop().time
        spoke_at = clock()
        async with deps.store.lookout.watching(job.session_id or job.id, rings=changed) as watch:
            with suppress(NotFound):  # the job, or one of its units
                while not deps.draining.is_set():
                    watch.check()
                    changed.clear()
                    job = await deps.store.get_job(job.id, user_id=job.user_id)
                    if (spec := spec_of(job)) is not None:
                        for chunk in await deps.store.chunks(job.id, first=units):
                            if chunk.start != sent:
                                break
                            fragment = await self._fragment(deps, spec, chunk)
                            if fragment is None:
                                break
                            fragment += padding_after(size + len(fragment))
                            yield fragment
                            sent, units, size, spoke_at = chunk.stop, units + 1, size + len(fragment), clock()
                    if job.status in OVER or (spec is not None and sent >= spec.frame_count):
                        return
                    if size and clock() - spoke_at > _SILENT_S:
                        yield EMPTY_BOX
                        size, spoke_at = size + len(EMPTY_BOX), clock()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_S):
                            await changed.wait()

    async def _fragment(self, deps: ApiDeps, spec: RenderSpec, chunk: ChunkRecord) -> bytes | None:
        """Make a unit a fragment; None where a power cut left it torn, for its job captures it again."""
        async with as_file(deps.storage, chunk.key) as unit, self._turns:
            if (await asyncio.to_thread(unit.stat)).st_size != chunk.total_bytes:
                return None
            try:
                return await fragment_of(spec, unit, chunk.start, leads=chunk.start == 0)
            except EncodeFailed as error:
                _log.warning("a stored unit is not sent", job_id=chunk.job_id, unit=chunk.unit, error=error.message)
                return None
