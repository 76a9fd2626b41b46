"""Rows as their owner sees them."""

from __future__ import annotations

from koda_ray.state.store import SessionRecord
from koda_ray.wire import SessionPage, SessionSummary, SessionView

__all__ = ["page_of", "view_of"]

_SUMMARY_CHARS = 200


def view_of(row: SessionRecord) -> SessionView:
    """Show a session whole."""
    return SessionView(
        id=row.id,
        node_id=row.node_id,
        project_id=row.project_id,
        status=row.status,
        seq=row.seq,
        state=row.state,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def page_of(rows: list[SessionRecord], limit: int) -> SessionPage:
    """Show the first ``limit`` of some rows; one row more than that says that there is another page."""
    page = rows[:limit]
    return SessionPage(
        sessions=tuple(_summary(row) for row in page), next=page[-1].id if len(rows) > limit and page else None
    )


def _summary(row: SessionRecord) -> SessionSummary:
    prompt = " ".join(row.state.prompt.split())
    return SessionSummary(
        id=row.id,
        project_id=row.project_id,
        phase=row.state.phase,
        owes=row.owes,
        status=row.status,
        prompt=prompt if len(prompt) <= _SUMMARY_CHARS else f"{prompt[: _SUMMARY_CHARS - 1]}…",
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
