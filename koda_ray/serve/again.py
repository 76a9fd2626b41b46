"""A render that is over, once more: the same page in the same way, or a session's final video by its session.

A page render is made again by itself. A session's final is the session's: it is asked to render, and takes that only
while it shows what the video was made of, so that nobody gets another film than the one they pointed at.
"""

from __future__ import annotations

from typing import Literal, cast

from pydantic import JsonValue

from koda_ray.actors.leased_job import OVER, counted_s
from koda_ray.errors import Conflict, KodaError, NotFound
from koda_ray.render.options import JobOptions
from koda_ray.render.spec import RenderSpec
from koda_ray.serve.batches import MADE_SURE
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.once import keyed_digits
from koda_ray.serve.quotas import render_quota
from koda_ray.state.keys import bundle_key
from koda_ray.state.records import JobRecord
from koda_ray.tracing import trace_parent
from koda_ray.types import NodeState, RenderOptions, now

__all__ = ["check_same", "final_again", "new_render", "page_again"]

_REQUEST = ("bundle", "entry", "request")
_AT_MOST_30 = 30


def new_render(user: str, project_id: str, *, key: str, wanted: dict[str, JsonValue], options: JobOptions) -> JobRecord:
    """Return the row of a page render: one for a key, however often it is asked for."""
    at = now()
    return JobRecord(
        id=f"job_{keyed_digits(key, user)}",
        user_id=user,
        project_id=project_id,
        session_id=None,
        kind="render",
        spec=wanted,
        video_s=counted_s(options),
        status="queued",
        trace=trace_parent(),
        lease_until=at + MADE_SURE,
        created_at=at,
        updated_at=at,
    )


def check_same(made: JobRecord, wanted: dict[str, JsonValue], key: str) -> None:
    """Raise Conflict where a key had made another render already."""
    if any(made.spec.get(name) != wanted[name] for name in wanted):
        raise Conflict(
            f"the idempotency key {key!r} was used for another render ({made.id}); use a new key",
            context={"render": made.id},
        )


async def page_again(deps: ApiDeps, job: JobRecord, key: str) -> JobRecord:
    """Record a page render that is made as another one was; of a batch's, that row alone.

    Raises:
        Conflict: The other is not over, its row is of another version, or the key was used for something else.
        NotFound: Its page is not kept any more.
        LimitReached: As many renders wait and are under way as may be.
    """
    if job.status not in OVER:
        raise Conflict(f"render {job.id} is {job.status}: follow it, or cancel it first", context={"render": job.id})
    wanted, options = _wanted(job)
    page = bundle_key(job.user_id, str(wanted["bundle"]))
    gone = NotFound(f"the page of render {job.id} is not kept any more: upload it again (POST /v1/renders)")
    try:
        await deps.storage.touch(page)
    except NotFound:
        raise gone from None
    row = new_render(job.user_id, job.project_id, key=key, wanted=wanted, options=options)
    made = await deps.store.create_job(row, quota=render_quota(deps.settings))
    check_same(made, wanted, key)
    # it may have been removed until there was a row that names it
    if made.status not in OVER and not await deps.storage.exists(page):
        await deps.store.delete_job(made.id, user_id=job.user_id)
        raise gone
    return made


def _wanted(job: JobRecord) -> tuple[dict[str, JsonValue], JobOptions]:
    """Return what a page render is made of, and how."""
    try:
        wanted = {name: job.spec[name] for name in _REQUEST}
        return wanted, JobOptions.from_json(cast("dict[str, JsonValue]", wanted["request"]))
    except (KeyError, TypeError, ValueError, KodaError):
        raise Conflict(
            f"render {job.id} was asked for in a way that this version of koda_ray does not know: ask for it anew "
            "(POST /v1/renders)",
            context={"render": job.id},
        ) from None


def final_again(state: NodeState, job: JobRecord) -> tuple[Literal["retry", "render"], dict[str, JsonValue]]:
    """Return the command by which a session renders a final video again, and its body.

    Raises:
        Conflict: It is not over, it is a preview, or the session shows something else by now.
    """
    where = {"render": job.id, "session": state.session_id}
    if job.status not in OVER:
        raise Conflict(f"render {job.id} is {job.status}: follow it, or cancel it first", context={**where})
    if job.kind != "final":
        raise Conflict(
            f"render {job.id} is a preview, which agents make as they work: say to session {state.session_id} what "
            "should be different, or render its video",
            context={**where},
        )
    error, output = state.error, state.output
    if error is not None and error.owes == "render_final" and output is not None and output.job_id == job.id:
        return "retry", {}
    if state.preview is None or state.preview.bundle != job.spec.get("bundle"):
        raise Conflict(
            f"session {state.session_id} shows another version than render {job.id} was made of: go back to that "
            "version (POST .../rewind), then render it",
            context={**where},
        )
    return "render", _options(job).model_dump(mode="json")


def _options(job: JobRecord) -> RenderOptions:
    """Return what a session is told of a video that is made as another was."""
    try:
        spec = RenderSpec.from_json(job.spec)
    except (TypeError, KodaError):  # of another version of koda_ray
        return RenderOptions()
    short = min(spec.picture)
    return RenderOptions(
        resolution="720p" if short <= 720 else "1080p" if short <= 1080 else "4k",
        fps=30 if spec.rate <= _AT_MOST_30 else 60,
        format="mp4" if spec.format == "png" else spec.format,
        transparent=spec.alpha,
    )
