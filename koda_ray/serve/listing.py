"""Which sessions a list shows: what somebody looks for, row by row, so that every store finds the same.

Rows are read a page at a time, and so many at most for one answer: where little is found, an answer is short, and says
where the next one begins. Pinned ones and takes of one prompt the store finds by itself: no row of others is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from koda_ray.actors.intake import words_waiting
from koda_ray.serve.views import change_of, read_cursor, session_summary, short, view_of
from koda_ray.state.records import SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import Phase
from koda_ray.wire import SessionOrder, SessionPage, SessionView, WhoseTurn

__all__ = ["SCANNED", "Sought", "lost_finals", "session_shown", "sessions_found", "titles_of"]

SCANNED = 1000
"""How many rows are looked at for one answer."""
_MOST_ROWS = 100


@dataclass(frozen=True, kw_only=True)
class Sought:
    """What sessions somebody looks for; all where nothing is said.

    ``text`` is in the title, the prompt or the scenes' titles, whatever the case of its letters; times are of the last
    change, ``[since, until)``. Its ``turn`` is the agents' while work is owed, and a person's while it waits to go on.
    In ``order`` of when they were made, or last changed, the newest come first.
    """

    phases: frozenset[Phase] = frozenset()
    turn: WhoseTurn | None = None
    status: Literal["active", "suspended"] | None = None
    pinned: bool | None = None
    project_id: str | None = None
    group: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    order: SessionOrder = "made"

    def takes(self, row: SessionRecord) -> bool:
        """Whether a session is one of them, of those that the store was asked for."""
        return (
            (not self.phases or row.state.phase in self.phases)
            and (self.pinned is None or row.pinned == self.pinned)
            and (self.turn is None or _turn(row) == self.turn)
            and (self.status is None or row.status == self.status)
            and (self.project_id is None or row.project_id == self.project_id)
            and (self.since is None or row.updated_at >= self.since)
            and (self.until is None or row.updated_at < self.until)
            and (not self.text or self._reads(row))
        )

    def _reads(self, row: SessionRecord) -> bool:
        scenes = row.state.plan.scenes if row.state.plan else ()
        words = "\n".join((row.id, row.title or "", row.state.prompt, *(scene.title for scene in scenes))).casefold()
        return all(word in words for word in (self.text or "").casefold().split())


async def sessions_found(store: Store, user_id: str, sought: Sought, *, limit: int, before: str | None) -> SessionPage:
    """Read a page of a user's sessions, in the order that is asked for; ``before`` is ``next`` of the page before.

    Raises:
        InvalidInput: ``before`` is of no page in this order.
    """
    found: list[SessionRecord] = []
    page = limit + 1 if replace(sought, pinned=None, group=None, order="made") == Sought() else _MOST_ROWS
    for _ in range(max(1, SCANNED // page)):
        rows = await _rows(store, user_id, sought, limit=page, before=before)
        for row in rows:
            if len(found) == limit:
                return await _page(store, user_id, found, before)
            before = row.id if sought.order == "made" else change_of(row)
            if sought.takes(row):
                found.append(row)
        if len(rows) < page:
            return await _page(store, user_id, found, None)
    return await _page(store, user_id, found, before)


async def _rows(store: Store, user_id: str, sought: Sought, *, limit: int, before: str | None) -> list[SessionRecord]:
    pinned, group = sought.pinned, sought.group
    if sought.order == "made":
        return await store.list_sessions(user_id, limit=limit, before=before, pinned=pinned, group=group)
    cursor = None if before is None else read_cursor(before)
    return await store.changed_sessions(user_id, limit=limit, before=cursor, pinned=pinned, group=group)


async def titles_of(store: Store, user_id: str, session_ids: Iterable[str | None]) -> dict[str, str]:
    """Say what a user's sessions are called, by id; None among the ids is nobody's."""
    ids = {each for each in session_ids if each is not None}
    named = await store.session_names(user_id, ids) if ids else {}
    return {each: short(name) for each, name in named.items()}


async def lost_finals(store: Store, user_id: str, job_ids: Iterable[str | None]) -> set[str]:
    """Say which of some videos were deleted, by the jobs that made them; None among those is nobody's."""
    ids = {each for each in job_ids if each is not None}
    return ids.difference(await store.job_ids(user_id, among=ids)) if ids else ids


async def session_shown(store: Store, session_id: str, user_id: str) -> SessionView:
    """Show a user's session as it is stored, without finals that were deleted since, and with what waits for it.

    Raises:
        NotFound: The user has no such session.
    """
    found = await store.whole_session(session_id, user_id=user_id)
    return view_of(found.row, found.lost, words_waiting(found.waiting, found.row.state.plan))


def _turn(row: SessionRecord) -> WhoseTurn | None:
    if row.owes is not None:
        return "agents"
    return None if row.state.phase in ("complete", "error") else "person"


async def _page(store: Store, user_id: str, rows: list[SessionRecord], next_: str | None) -> SessionPage:
    shown = {made.job_id for row in rows for made in (row.state.output, row.state.preview) if made is not None}
    lost = shown.difference(await store.job_ids(user_id, among=shown, unswept=True)) if shown else shown
    return SessionPage(sessions=tuple(session_summary(row, lost) for row in rows), next=next_)
