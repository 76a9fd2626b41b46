"""A page that is tried by one of the tasks that capture it: in the browser that goes on with its units where it passes.

A browser that has shown a page once shows it again in half the time. So who captures a video whose page has not been
tried yet gives the trial to one task, beside others that capture already; nobody waits for a browser of its own.
"""

from __future__ import annotations

import asyncio

from koda_ray.render.protocol import ProbeReport, ProbeTask

__all__ = ["Trial", "TrialFails"]


class TrialFails(Exception):
    """The page has problems, so that nothing of it is wanted."""


class Trial:
    """One trial, and who has it.

    Args:
        task: The page, and for how long it is looked at.
    """

    def __init__(self, task: ProbeTask) -> None:
        self.task = task
        self._taken = False
        self._report: asyncio.Future[ProbeReport | None] = asyncio.get_running_loop().create_future()

    @property
    def is_over(self) -> bool:
        """Whether there is a report, or nobody here will make one."""
        return self._report.done()

    @property
    def is_forgone(self) -> bool:
        """Whether nobody here will make a report."""
        return self._report.done() and self._report.result() is None

    def take(self) -> Trial | None:
        """Give the trial to who asks first."""
        if self._taken or self.is_over:
            return None
        self._taken = True
        return self

    def let_go(self) -> None:
        """Leave the trial to the next who asks, where it is not over."""
        self._taken = False

    def told(self, report: ProbeReport) -> None:
        """Take in what was found."""
        if not self.is_over:
            self._report.set_result(report)

    def forgo(self, *, taken: bool = True) -> None:
        """Say that nobody here makes it any more; one that is ``taken`` only where that is said too."""
        if not self.is_over and (taken or not self._taken):
            self._report.set_result(None)

    async def over(self) -> None:
        """Wait until it is over, where somebody has it."""
        if self._taken:
            await asyncio.shield(self._report)

    async def report(self) -> ProbeReport | None:
        """Wait for what was found; None where the page was not tried here."""
        return await asyncio.shield(self._report)
