"""Rows as their owner sees them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from koda_ray.errors import InvalidInput, KodaError
from koda_ray.render.spec import RenderSpec
from koda_ray.state.past import PointRecord
from koda_ray.state.records import ApprovalRecord, JobRecord, SessionRecord
from koda_ray.types import Unread
from koda_ray.video_formats import PLAYED_FORMATS
from koda_ray.wire import (
    ApprovalView,
    RenderList,
    RenderSummary,
    RenderView,
    SessionSummary,
    SessionView,
)

__all__ = [
    "approval_view",
    "change_of",
    "cursor_of",
    "read_cursor",
    "render_view",
    "renders_page",
    "session_summary",
    "short",
    "spec_of",
    "view_of",
]

_SUMMARY_CHARS = 200
_CURSOR = re.compile(r"([0-9a-f]{1,16})-([A-Za-z0-9_-]{1,64})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)


def view_of(
    row: SessionRecord,
    lost: Collection[str] = (),
    waiting: tuple[Unread, ...] = (),
    *,
    forked_title: str | None = None,
) -> SessionView:
    """Show a session whole.

    Args:
        row: As it is stored.
        lost: The jobs that made final videos which were deleted: those are left out.
        waiting: What was said that its process has not taken: nobody has read it.
        forked_title: What the session is called that it was made of.
    """
    finals = {"output": row.state.output, "finished": row.state.finished}
    changed: dict[str, object] = {
        name: None for name, made in finals.items() if made is not None and made.job_id in lost
    }
    if waiting:
        changed["unread"] = (*row.state.unread, *waiting)
    return SessionView(
        id=row.id,
        node_id=row.node_id,
        project_id=row.project_id,
        status=row.status,
        seq=row.seq,
        state=row.state.model_copy(update=changed) if changed else row.state,
        title=row.title,
        pinned=row.pinned,
        forked_title=forked_title,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def approval_view(approval: ApprovalRecord) -> ApprovalView:
    """Show what waits for a person, or waited."""
    return ApprovalView(
        id=approval.id,
        kind=approval.kind,
        status=approval.status,
        payload=approval.payload,
        call_id=approval.call_id,
        answer=approval.answer,
        created_at=approval.created_at,
        resolved_at=approval.resolved_at,
    )


def render_view(job: JobRecord) -> RenderView:
    """Show a page render."""
    url = f"/v1/renders/{job.id}"
    made = job.status == "succeeded"
    hidden = ("videoKey", "thumbnailKey")
    planned = job.spec.get("spec")
    batch = cast("dict[str, Any]", job.spec.get("batch") or {})
    return RenderView(
        id=job.id,
        project_id=job.project_id,
        status=job.status,
        bundle=str(job.spec.get("bundle")),
        entry=str(job.spec.get("entry")),
        request=cast("dict[str, JsonValue]", _camel(job.spec.get("request") or {})),
        spec=cast("dict[str, JsonValue]", _camel(planned)) if isinstance(planned, dict) else None,
        progress=job.progress,
        result=None if job.result is None else {name: job.result[name] for name in job.result if name not in hidden},
        error=job.error,
        created_at=job.created_at,
        updated_at=job.updated_at,
        batch_id=batch.get("id"),
        row=batch.get("row"),
        state_url=url,
        events_url=f"{url}/events",
        video_url=f"{url}/video" if made else None,
        thumbnail_url=f"{url}/thumbnail" if made else None,
        report_url=f"{url}/report" if made else None,
    )


def renders_page(rows: list[JobRecord], limit: int, titles: Mapping[str, str] | None = None) -> RenderList:
    """Show the first ``limit`` of some renders; one row more than that says that there is another page.

    Args:
        rows: The renders.
        limit: How many at most.
        titles: What their sessions are called, by id, as far as that is known.
    """
    page = rows[:limit]
    more = len(rows) > limit and page
    cursor = cursor_of(page[-1]) if more else None
    return RenderList(renders=tuple(_render_summary(row, titles or {}) for row in page), next=cursor)


def cursor_of(row: JobRecord | PointRecord | ApprovalRecord) -> str:
    """Say where in a list by time something is: its id does not sort by it, and it may be gone when this is read."""
    return _cursor(row.created_at, row.id)


def change_of(row: SessionRecord) -> str:
    """Say where in a list by the last change something is: it may be elsewhere, or gone, when this is read."""
    return _cursor(row.updated_at, row.id)


def _cursor(at: datetime, item_id: str) -> str:
    return f"{(at - _EPOCH) // _TICK:x}-{item_id}"


def read_cursor(text: str) -> tuple[datetime, str]:
    """Read what `cursor_of` or `change_of` wrote.

    Raises:
        InvalidInput: It is none.
    """
    found = _CURSOR.fullmatch(text)
    try:
        if found is not None:
            return _EPOCH + int(found[1], 16) * _TICK, found[2]
    except OverflowError:
        pass
    raise InvalidInput(f"before {text[:80]!r} is not the 'next' of a page: leave it out to begin with the newest")


def short(text: str) -> str:
    """Have a prompt, or a title, in one line of a list."""
    words = " ".join(text.split())
    return words if len(words) <= _SUMMARY_CHARS else f"{words[: _SUMMARY_CHARS - 1]}…"


def _render_summary(job: JobRecord, titles: Mapping[str, str]) -> RenderSummary:
    view = render_view(job)
    told = job.progress if job.status in ("queued", "running") else {}
    spec = spec_of(job)
    width, height = (None, None) if spec is None else spec.picture
    state_url, video_url, thumbnail_url = view.state_url, view.video_url, view.thumbnail_url
    if job.session_id is not None:
        parts = f"/v1/sessions/{job.session_id}", f"?job={job.id}"
        state_url = f"/v1/jobs/{job.id}"
        video_url = "/video".join(parts) if video_url else None
        thumbnail_url = "/thumbnail".join(parts) if thumbnail_url else None
    return RenderSummary(
        id=view.id,
        kind=job.kind,
        session_id=job.session_id,
        title=None if job.session_id is None else titles.get(job.session_id),
        project_id=view.project_id,
        status=view.status,
        bundle=view.bundle,
        entry=view.entry if job.kind == "render" else None,
        percent=_number(job.progress.get("percent")) or 0.0,
        stage=str(told["stage"]) if "stage" in told else None,
        frames_done=_whole(told.get("framesDone")),
        frames_total=_whole(told.get("framesTotal")),
        seconds_left=_number(told.get("secondsLeft")),
        width=width,
        height=height,
        fps=None if spec is None else spec.rate,
        format=None if spec is None else spec.format,
        transparent=None if spec is None else spec.alpha,
        file_size=_whole((job.result or {}).get("fileSize")),
        error=view.error,
        created_at=view.created_at,
        updated_at=view.updated_at,
        batch_id=view.batch_id,
        row=view.row,
        duration=job.video_s or None,
        state_url=state_url,
        video_url=video_url,
        thumbnail_url=thumbnail_url,
    )


def spec_of(job: JobRecord) -> RenderSpec | None:
    """Return what is made; None while that is not known, or where it cannot be read any more."""
    planned = job.spec.get("spec") if job.kind == "render" else job.spec
    try:
        return RenderSpec.from_json(planned) if isinstance(planned, dict) else None
    except (TypeError, KodaError):  # of another version of koda_ray
        return None


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _whole(value: JsonValue) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _camel(value: JsonValue) -> JsonValue:
    """Return the renderer's own JSON with names as the wire has them."""
    if isinstance(value, dict):
        return {to_camel(name): _camel(inside) for name, inside in value.items()}
    return [_camel(inside) for inside in value] if isinstance(value, list) else value


def session_summary(
    row: SessionRecord, lost: Collection[str] = (), *, forked_title: str | None = None
) -> SessionSummary:
    """Show a session in a list; ``lost`` are jobs whose videos are gone: of finals that were deleted, and of previews.

    Of those the pictures stay. ``forked_title`` is what the session is called that it was made of.
    """
    state = row.state
    todos = state.execution.todos if state.execution else ()
    final = state.output if state.output is not None and state.output.video_url is not None else None
    final = None if final is not None and final.job_id in lost else final
    played = final if state.final_format in PLAYED_FORMATS else None
    made, pictured = played or state.preview or final, final or state.preview
    return SessionSummary(
        id=row.id,
        project_id=row.project_id,
        phase=row.state.phase,
        owes=row.owes,
        approval=state.approval.name if state.approval else None,
        status=row.status,
        title=row.title,
        pinned=row.pinned,
        group=state.group,
        take=state.options.take,
        forked_from=state.forked_from,
        forked_title=forked_title,
        prompt=short(state.prompt),
        seq=row.seq,
        todos_done=sum(todo.status == "done" for todo in todos),
        todos=len(todos),
        duration=made.duration if made else state.plan.total_duration if state.plan else None,
        video_url=f"/v1/sessions/{row.id}/video?job={made.job_id}" if made and made.job_id not in lost else None,
        thumbnail_url=f"/v1/sessions/{row.id}/thumbnail?job={pictured.job_id}" if pictured else None,
        error=state.error.message if state.error else None,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
