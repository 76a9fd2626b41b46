"""A log page by page, with word of whatever does not follow.

A reader holds one page and no more: the store is its queue. One that comes for events that were swept, or falls too far
behind what happened since it came, is told by a `resync` what is left out, which is never more than what a later event
makes worthless anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from koda_ray.events import Envelope, Resync, resync
from koda_ray.state.store import Store

__all__ = ["PAGE", "LogPages"]

PAGE = 500


class LogPages:
    """A log page by page from a number on, with a `resync` wherever not all of it follows."""

    def __init__(self, store: Store, stream_id: str, after: int, *, behind: int) -> None:
        self._store = store
        self._stream_id = stream_id
        self._after = after
        self._behind = behind
        self._asked_for = after
        self._whole_from = after + 1
        self._lean_until = after

    @property
    def reached(self) -> int:
        """The number to go on from."""
        return self._after

    async def begin(self) -> Envelope | None:
        """Look how much there is: all of that is replayed in full, and a reader is slow only beyond it."""
        rest = await self._store.log_rest(self._stream_id, self._after)
        self._asked_for = max(rest.newest, self._after)
        if 0 < rest.newest < self._after:
            asked, self._after = self._after, rest.newest
            self._asked_for = self._lean_until = rest.newest
            self._whole_from = rest.newest + 1
            return self._told(Resync(reason="ahead", after=asked, whole_from=self._whole_from))
        return await self._swept() if rest.whole_from > self._after + 1 else None

    async def read(self) -> list[Envelope]:
        """Read the next page; empty where nothing is new."""
        if self._after < self._lean_until:
            page = await self._store.events(self._stream_id, after=self._after, limit=PAGE, lasting=True)
            near = [event for event in page if event.seq <= self._lean_until]
            self._after = near[-1].seq if len(near) == PAGE else self._lean_until
            if near:
                return near
        page = await self._store.events(self._stream_id, after=self._after, limit=PAGE)
        if not page:
            return []
        told = None
        if self._has_new_gap(page):
            told = await self._swept()
        elif len(page) == PAGE and self._after >= self._asked_for and (told := await self._slow()) is not None:
            return [told]
        self._after = page[-1].seq
        return page if told is None else [told, *page]

    def _has_new_gap(self, page: Sequence[Envelope]) -> bool:
        """Whether something was swept while the log was read."""
        numbers = [self._after, *(event.seq for event in page)]
        return any(seq != before + 1 and seq > self._whole_from for before, seq in pairwise(numbers))

    async def _swept(self) -> Envelope:
        rest = await self._store.log_rest(self._stream_id, self._after)
        self._whole_from = rest.whole_from
        missing = rest.newest - self._after - rest.kept
        return self._told(Resync(reason="swept", after=self._after, whole_from=rest.whole_from, left_out=missing))

    async def _slow(self) -> Envelope | None:
        """Decide to hurry, where the reader is too far behind and there is something to leave out."""
        rest = await self._store.log_rest(self._stream_id, self._after)
        if rest.newest - self._after <= self._behind or rest.lasting == rest.newest - self._after:
            return None
        self._lean_until = rest.newest
        self._whole_from = rest.newest + 1
        left_out = rest.newest - self._after - rest.lasting
        return self._told(Resync(reason="slow", after=self._after, whole_from=rest.newest + 1, left_out=left_out))

    def _told(self, what: Resync) -> Envelope:
        return resync(self._stream_id, self._after, what)
