"""Page renders: a page is uploaded, or named by its bundle's hash, and becomes a video; no session, no agents.

The same rules as for sessions: recorded before it is answered (202), worked on by whoever the directory finds, read
and followed without waking anybody, invisible to other users.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import AwareDatetime, BaseModel, Field, JsonValue

from koda_ray.actors.leased_job import OVER, row_spec
from koda_ray.actors.removal import remove_render
from koda_ray.errors import NotFound
from koda_ray.render.bundle import keep_bundle, store_bundle
from koda_ray.render.formats import FORMATS
from koda_ray.render.options import check_options
from koda_ray.serve.again import check_same, new_render
from koda_ray.serve.batches import BATCH_ID, batch_prefix
from koda_ray.serve.context import Deps, Following, IdempotencyKey, User, background_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.listing import renders_found
from koda_ray.serve.media import REDIRECTED, Representation, blob_response
from koda_ray.serve.page_requests import body_of, naming, requested
from koda_ray.serve.problem import responses
from koda_ray.serve.quotas import count_storing, render_quota
from koda_ray.serve.routes.events import Start, Wanted, sse
from koda_ray.serve.routes.sessions import default_project
from koda_ray.serve.streams import job_events
from koda_ray.serve.turns import wake_in_turn
from koda_ray.serve.views import render_view
from koda_ray.state.keys import report_key, report_page_key, sheet_key, thumbnail_key, video_key
from koda_ray.state.records import JobRecord, RendersSought
from koda_ray.wire import RenderKind, RenderList, RenderStatus, RenderView

__all__ = ["router"]

router = APIRouter(prefix="/v1/renders", tags=["renders"])
_TYPES: dict[str, str] = {name: form.media_type for name, form in FORMATS.items()}
_BYTES = {"schema": {"type": "string", "format": "binary"}}


async def _own_render(
    job_id: Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="A render's id")],
    user: User,
    deps: Deps,
) -> JobRecord:
    try:
        job = await deps.store.get_job(job_id, user_id=user)
    except NotFound:
        raise NotFound(f"there is no render {job_id!r}; GET /v1/renders lists yours") from None
    if job.kind != "render":
        raise NotFound(f"there is no render {job_id!r}; a session's renders are under its own address")
    return job


OwnRender = Annotated[JobRecord, Depends(_own_render)]
Download = Annotated[bool, Query(description="Have a browser save it rather than show it")]


@router.post(
    "",
    operation_id="createRender",
    summary="Render a page to a video",
    status_code=202,
    response_model=RenderView,
    responses=responses(401, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra={"requestBody": body_of("CreateRender")},
)
async def create_render(
    request: Request, user: User, key: IdempotencyKey, deps: Deps, response: Response
) -> RenderView:
    """Upload a zip of a built page (`file`, with `options` as JSON text), or name the bundle of an earlier upload.

    The page needs no contract: any web animation is rendered frame by frame. Follow `eventsUrl`, or read `stateUrl`.
    """
    async with requested(request, deps, user) as asked:
        page, options = asked.page, asked.options
        bundle = await store_bundle(deps.storage, user, page.bundle, hold=count_storing(deps, user))
        # what can be refused without opening the page is refused now
        with naming():
            check_options(options, bundle=bundle, entry=page.entry)
        wanted = row_spec(bundle=bundle, entry=page.entry, options=options)
        row = new_render(user, default_project(user), key=key, wanted=wanted, options=options)
        job = await deps.store.create_job(row, quota=render_quota(deps.settings))
        # what it is made of may have been removed until there was a row that names it
        await keep_bundle(deps.storage, user, bundle, page.bundle, hold=count_storing(deps, user))
    check_same(job, wanted, key)
    if job.status not in OVER:
        background_of(request).spawn(wake_in_turn(deps, [job]), what="wake a render")
    view = render_view(job)
    response.headers["Location"] = view.state_url
    return view


class _Asked(BaseModel):
    """Which renders, and which page of them."""

    status: list[RenderStatus] | None = Field(None, description="Only those in this state; repeatable")
    kind: list[RenderKind] | None = Field(
        None, description="Those of pages (render), or sessions' previews and finals; repeatable"
    )
    session: str | None = Field(None, max_length=64, description="Only this session's")
    text: str | None = Field(
        None,
        max_length=200,
        description="Only those with all these words in what they are called: their session's title or prompt, or "
        "their page's file, row and data; or whose id, batch or page's hash begins so",
    )
    batch: str | None = Field(None, pattern=BATCH_ID, description="Only this batch's, in the order of rows")
    since: AwareDatetime | None = Field(None, description="Only those that changed since then")
    until: AwareDatetime | None = Field(None, description="Only those that have not changed since then")
    limit: int = Field(50, ge=1, le=200, description="Renders in a page")
    before: str | None = Field(None, max_length=96, description="`next` of the page before")

    def sought(self) -> RendersSought:
        return RendersSought(
            kinds=tuple(self.kind) if self.kind else () if self.session else ("render",),
            session_id=self.session,
            statuses=tuple(self.status or ()),
            id_prefix="" if self.batch is None else batch_prefix(self.batch),
            since=self.since,
            until=self.until,
        )


@router.get(
    "",
    operation_id="listRenders",
    summary="List your renders, newest first",
    response_model=RenderList,
    responses=responses(401, 422),
)
async def list_renders(user: User, deps: Deps, asked: Annotated[_Asked, Query()]) -> RenderList:
    """Return a page; ask again with `before` set to `next` until `next` is null.

    Where neither a session nor a kind is named, those of pages are listed, and no session's. Where `text` is looked
    for, a page may have fewer than `limit`, and still have a `next`.
    """
    return await renders_found(
        deps.store, user, asked.sought(), text=asked.text or "", limit=asked.limit, before=asked.before
    )


@router.get(
    "/{job_id}",
    operation_id="getRender",
    summary="Read a render's state and progress",
    response_model=RenderView,
    responses=responses(401, 404, 422),
)
async def get_render(job: OwnRender) -> RenderView:
    """Return the state as stored."""
    return render_view(job)


@router.post(
    "/{job_id}/cancel",
    operation_id="cancelRender",
    summary="Cancel a render",
    response_model=RenderView,
    responses=responses(401, 404, 422),
)
async def cancel_render(job: OwnRender, user: User, deps: Deps, request: Request) -> RenderView:
    """End it with every process that works for it, and keep what is known of it. One that is over stays as it is."""
    ended = deps.directory.cancel_render(job.id, user_id=user)
    return render_view(await background_of(request).finish(ended))


@router.delete(
    "/{job_id}",
    operation_id="deleteRender",
    summary="Delete a render with everything in it",
    status_code=204,
    responses=responses(401, 404, 422),
)
async def delete_render(job: OwnRender, user: User, deps: Deps, request: Request) -> Response:
    """End it where it is under way, and remove its video, pictures, report, events and row.

    The page's bundle and the frames stay for a while, for whoever renders the page again. Deleting it again is a 404.
    """

    async def removed() -> None:
        await deps.directory.cancel_render(job.id, user_id=user)
        await remove_render(job, store=deps.store, storage=deps.storage)

    await background_of(request).finish(removed())
    return Response(status_code=204)


@router.get(
    "/{job_id}/events",
    operation_id="followRender",
    summary="Follow a render",
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "As a session's events; ends when the render is over.",
            "content": {"text/event-stream": {"itemSchema": {"$ref": "#/components/schemas/Envelope"}}},
        },
        **responses(401, 404, 422, 429),
    },
)
async def follow_render(
    job: OwnRender, deps: Deps, start: Start, following: Following, wanted: Wanted
) -> AsyncIterator[ServerSentEvent]:
    """Send what happened since `after`, then what happens, until the render is over."""
    events = job_events(deps, job.id, after=start, wanted=wanted)
    async for event in await following.enter_async_context(aclosing(events)):
        yield sse(event)


@router.get(
    "/{job_id}/video",
    operation_id="getRenderVideo",
    summary="Watch or download a render's video",
    response_class=Response,
    responses={
        200: {"description": "The video", "content": dict.fromkeys(_TYPES.values(), _BYTES)},
        206: {"description": "Some bytes of it", "content": dict.fromkeys(_TYPES.values(), _BYTES)},
        304: {"description": "You have it already"},
        **REDIRECTED,
        **responses(401, 404, 416, 422),
    },
)
@router.head("/{job_id}/video", include_in_schema=False)
async def render_video(request: Request, job: OwnRender, deps: Deps, download: Download = False) -> Response:
    """Send the video, or the part that `Range` asks for."""
    stored = str(_result(job)["videoKey"])
    extension = stored.rpartition(".")[2]
    kind = str(_result(job).get("format") or extension)
    return await blob_response(
        request,
        deps.storage,
        video_key(job.user_id, job.id, extension),
        Representation(
            media_type=_TYPES.get(kind, "application/octet-stream"),
            etag=f"{job.id}.{extension}",
            filename=f"{job.id}.{extension}",
            download=download,
            redirects=deps.settings.redirects_to_bucket,
        ),
    )


@router.get(
    "/{job_id}/thumbnail",
    operation_id="getRenderThumbnail",
    summary="See a still picture of a render",
    response_class=Response,
    responses={200: {"description": "The picture", "content": {"image/jpeg": _BYTES}}, **responses(401, 404, 422)},
)
@router.head("/{job_id}/thumbnail", include_in_schema=False)
async def render_thumbnail(request: Request, job: OwnRender, deps: Deps) -> Response:
    """Send the picture that stands for the video."""
    return await _part(request, job, deps, thumbnail_key(job.user_id, job.id), "image/jpeg", "jpg")


@router.get(
    "/{job_id}/sheet",
    operation_id="getRenderSheet",
    summary="See frames of a render side by side",
    response_class=Response,
    responses={200: {"description": "The picture", "content": {"image/jpeg": _BYTES}}, **responses(401, 404, 422)},
)
@router.head("/{job_id}/sheet", include_in_schema=False)
async def render_sheet(request: Request, job: OwnRender, deps: Deps) -> Response:
    """Send the contact sheet."""
    return await _part(request, job, deps, sheet_key(job.user_id, job.id), "image/jpeg", "sheet.jpg")


@router.get(
    "/{job_id}/report",
    operation_id="getRenderReport",
    summary="Read how a render went",
    response_class=Response,
    responses={
        200: {
            "description": "The report",
            "content": {
                "application/json": {"schema": {"type": "object", "additionalProperties": True}},
                "text/html": {"schema": {"type": "string"}},
            },
        },
        **responses(401, 404, 422),
    },
)
async def render_report(
    request: Request,
    job: OwnRender,
    deps: Deps,
    format: Annotated[Literal["json", "html"], Query(description="For programs, or to look at")] = "json",
) -> Response:
    """Send frames, timings by stage, attempts, reuse and environment."""
    if format == "json":
        return await _part(request, job, deps, report_key(job.user_id, job.id), "application/json", "json")
    page = await _part(request, job, deps, report_page_key(job.user_id, job.id), "text/html; charset=utf-8", "html")
    # it quotes a page that is not trusted: whatever slipped through may not run on this origin
    page.headers["Content-Security-Policy"] = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return page


async def _part(request: Request, job: JobRecord, deps: ApiDeps, key: str, media_type: str, extension: str) -> Response:
    _result(job)
    return await blob_response(
        request,
        deps.storage,
        key,
        Representation(media_type=media_type, etag=f"{job.id}.{extension}", filename=f"{job.id}.{extension}"),
    )


def _result(job: JobRecord) -> dict[str, JsonValue]:
    if job.status == "succeeded" and job.result is not None:
        return job.result
    why = f": {job.error['message']}" if job.error else ""
    way_out = (
        "ask for it again by POST /v1/renders" if job.status in OVER else "follow its events until it has succeeded"
    )
    raise NotFound(
        f"render {job.id} has no video (it is {job.status}{why}); {way_out}",
        code="VIDEO_NOT_READY",
        context={"status": job.status},
        retryable=job.status not in OVER,
    )
