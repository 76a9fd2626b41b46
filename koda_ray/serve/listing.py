"""Which sessions and renders a list shows: what somebody looks for, row by row, so that every store finds the same.

Rows are read a page at a time, and so many at most for one answer: where little is found, an answer is short, and says
where the next one begins. Pinned ones and takes of one prompt the store finds by itself: no row of others is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, cast

from pydantic import JsonValue

from koda_ray.actors.intake import words_waiting
from koda_ray.serve.views import change_of, cursor_of, read_cursor, renders_page, session_summary, short, view_of
from koda_ray.state.records import JobRecord, RendersSought, SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import Phase
from koda_ray.wire import RenderList, SessionOrder, SessionPage, SessionView, WhoseTurn

__all__ = ["SCANNED", "Sought", "lost_finals", "renders_found", "session_shown", "sessions_found", "titles_of"]

SCANNED = 1000
"""How many rows are looked at for one answer."""
_MOST_ROWS = 100
_ID_CHARS = 4
"""Fewer letters begin too many ids and hashes."""


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


async def renders_found(
    store: Store, user_id: str, sought: RendersSought, *, text: str, limit: int, before: str | None
) -> RenderList:
    """Read a page of a user's renders, newest first; ``before`` is ``next`` of the page before.

    Args:
        store: Where they are.
        user_id: Whose.
        sought: Which of them.
        text: Words that are in what each is called, whatever the case of their letters: its session's title, or its
            prompt; its page's file, row and data; or how its id, its batch's or its page's hash begins. All where it
            is empty.
        limit: How many at most.
        before: ``next`` of the page before.

    Raises:
        InvalidInput: ``before`` is of no page.
    """
    cursor = None if before is None else read_cursor(before)
    if not text.split():
        rows = await store.list_renders(user_id, sought, limit=limit + 1, before=cursor)
        return renders_page(rows, limit, await titles_of(store, user_id, (row.session_id for row in rows[:limit])))
    found: list[JobRecord] = []
    titles: dict[str, str] = {}
    next_ = before
    for _ in range(max(1, SCANNED // _MOST_ROWS)):
        rows = await store.list_renders(user_id, sought, limit=_MOST_ROWS, before=cursor)
        names = await _names_of(store, user_id, (row.session_id for row in rows))
        for row in rows:
            if len(found) == limit:
                return renders_page(found, limit, titles).model_copy(update={"next": next_})
            cursor, next_ = (row.created_at, row.id), cursor_of(row)
            name = names.get(row.session_id or "", "")
            if _is_called(row, name, text):
                found.append(row)
                titles |= {row.session_id: short(name)} if row.session_id and name else {}
        if len(rows) < _MOST_ROWS:
            return renders_page(found, limit, titles)
    return renders_page(found, limit, titles).model_copy(update={"next": next_})


def _is_called(job: JobRecord, name: str, text: str) -> bool:
    """Whether all words are in what a render is called; of what nobody reads, how it begins counts."""
    request, batch = (cast("dict[str, JsonValue]", job.spec.get(part) or {}) for part in ("request", "batch"))
    row = f"row {batch['row']}" if "row" in batch else None
    data = json.dumps(json.loads(str(request.get("props", "{}"))), ensure_ascii=False)  # as it is read
    told: tuple[JsonValue, ...] = (name,) if job.session_id else ("page", job.spec.get("entry"), row, data)
    ids = [str(each) for each in (job.id, job.spec.get("bundle"), batch.get("id")) if each]
    words = "\n".join(str(each) for each in told if each).casefold()
    return all(
        word in words or (len(word) >= _ID_CHARS and any(each.startswith(word) for each in ids))
        for word in text.casefold().split()
    )


async def titles_of(store: Store, user_id: str, session_ids: Iterable[str | None]) -> dict[str, str]:
    """Say what a user's sessions are called, by id; None among the ids is nobody's."""
    return {each: short(name) for each, name in (await _names_of(store, user_id, session_ids)).items()}


async def _names_of(store: Store, user_id: str, session_ids: Iterable[str | None]) -> dict[str, str]:
    ids = {each for each in session_ids if each is not None}
    return await store.session_names(user_id, ids) if ids else {}


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
    origin = found.row.state.forked_from
    titles = await titles_of(store, user_id, [origin])
    waiting = words_waiting(found.waiting, found.row.state.plan)
    return view_of(found.row, found.lost, waiting, forked_title=titles.get(origin or ""))


def _turn(row: SessionRecord) -> WhoseTurn | None:
    if row.owes is not None:
        return "agents"
    return None if row.state.phase in ("complete", "error") else "person"


async def _page(store: Store, user_id: str, rows: list[SessionRecord], next_: str | None) -> SessionPage:
    shown = {made.job_id for row in rows for made in (row.state.output, row.state.preview) if made is not None}
    lost = shown.difference(await store.job_ids(user_id, among=shown, unswept=True)) if shown else shown
    titles = await titles_of(store, user_id, (row.state.forked_from for row in rows))
    shown_rows = (session_summary(row, lost, forked_title=titles.get(row.state.forked_from or "")) for row in rows)
    return SessionPage(sessions=tuple(shown_rows), next=next_)
