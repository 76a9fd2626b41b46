"""Page renders that are under way in one process: each with its own row and lease, all with one executor.

A render's coordinator hardly works: it waits for browsers and writes what they say. So several share a process, which
costs more to start than a short render takes to coordinate. When the process dies, their leases run out, and each is
taken up again by itself, wherever there is room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from koda_ray.actors.leased_job import JobParts, LeasedJob
from koda_ray.errors import Fenced

__all__ = ["JOBS", "Coordinator", "coordinators_for", "renders_at_once"]

JOBS = 16
"""How many renders share a process, on average, where there is room for many."""


def renders_at_once(browsers: int, most: int | None) -> int:
    """Return how many renders may be under way at once: one more than there are browsers, which they share.

    The one more keeps those busy while another is joined. A cluster that grows has room for more than its browsers,
    since it grows by what waits for them: for a few at first, then for twice as many.

    Args:
        browsers: How many the cluster has now.
        most: How many it may grow to; it does not grow when None.
    """
    return max(browsers, min(most or 0, 2 * browsers + JOBS)) + 1


def coordinators_for(renders: int) -> int:
    """Return how many processes so many renders share."""
    return -(-renders // JOBS)


class Coordinator:
    """The page renders of one process.

    Args:
        parts: What they work with.
        lease_s: How long a row is held without a sign of life, in seconds.
        idle_s: For how long there has to be none before the process is needed no longer, in seconds.
        rested: Called after each render.
        ended: Called once when the process is needed no longer.
    """

    def __init__(
        self,
        parts: JobParts,
        *,
        lease_s: float,
        idle_s: float,
        rested: Callable[[], object] = lambda: None,
        ended: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._lease_s = lease_s
        self._idle_s = idle_s
        self._rested = rested
        self._ended = ended
        self._jobs: dict[str, LeasedJob | None] = {}  # None while its row is being claimed
        self._closed = False
        self._idle: asyncio.TimerHandle | None = None
        self._rest()

    @property
    def jobs(self) -> int:
        """How many renders are under way here."""
        return len(self._jobs)

    async def begin(self, job_id: str) -> None:
        """Take a render's row, and begin; nothing happens where it is under way here.

        Raises:
            NotFound: There is no such render.
            Conflict: It is over.
            Fenced: This process is ending: another has to be asked.
        """
        if self._closed:
            raise self._ending()
        if job_id in self._jobs:
            return
        self._jobs[job_id] = None
        self._rest()
        try:
            over = partial(self._over, job_id)
            job = await LeasedJob.claim(job_id, self._parts, lease_s=self._lease_s, ended=over)
        except BaseException:
            self._over(job_id)
            raise
        self._jobs[job_id] = job
        if self._closed:
            await job.close()
            raise self._ending()

    async def stop(self, job_id: str) -> None:
        """End the work on a render whose row says that it is cancelled, if that is here."""
        if (job := self._jobs.get(job_id)) is not None:
            await job.stop()

    async def close(self) -> None:
        """Stop all of them and give their rows up, so that they are taken up elsewhere; may be called twice."""
        self._closed = True
        self._rest()
        await asyncio.gather(*(job.close() for job in tuple(self._jobs.values()) if job is not None))

    def _ending(self) -> Fenced:
        return Fenced("this process of renders is ending; ask again", retryable=True)

    def _over(self, job_id: str) -> None:
        self._jobs.pop(job_id, None)
        self._rested()
        self._rest()

    def _rest(self) -> None:
        """Wait for the end while there is nothing to do."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self._jobs and not self._closed:
            self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._leave)

    def _leave(self) -> None:
        self._closed = True
        self._ended()
