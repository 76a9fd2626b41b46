"""Batches of renders: one page, one video for each row of data; recorded, looked at and cancelled with one request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import JsonValue

from koda_ray.actors.leased_job import OVER, counted_s, row_spec
from koda_ray.errors import Conflict, InvalidInput, NotFound
from koda_ray.render.bundle import keep_bundle, store_bundle
from koda_ray.render.options import check_options
from koda_ray.serve.batches import BATCH_ID, MADE_SURE, batch_jobs, batch_name, batch_prefix
from koda_ray.serve.context import Deps, IdempotencyKey, User, background_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.page_requests import Asked, body_of, requested
from koda_ray.serve.problem import responses
from koda_ray.serve.quotas import count_storing, render_quota
from koda_ray.serve.routes.sessions import default_project
from koda_ray.serve.turns import wake_in_turn
from koda_ray.state.records import JobRecord
from koda_ray.tracing import trace_parent
from koda_ray.types import now
from koda_ray.wire import BatchCreated, BatchView

__all__ = ["router"]

router = APIRouter(prefix="/v1/renders/batches", tags=["renders"])
_WOKEN = 4
"""How many are begun at once; the others are found as there is room."""
BatchId = Annotated[str, Path(pattern=BATCH_ID, description="A batch's id")]


@router.post(
    "",
    operation_id="createBatch",
    summary="Render a page once for each row of data",
    status_code=202,
    response_model=BatchCreated,
    responses=responses(401, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra={"requestBody": body_of("CreateBatch")},
)
async def create_batch(
    request: Request, user: User, key: IdempotencyKey, deps: Deps, response: Response
) -> BatchCreated:
    """As `createRender`, with `rows`: each is what one video's page finds as `window.__kodaProps`.

    Where a row cannot be rendered, none is. Each render is one of its own: follow, cancel and delete it by its id.
    """
    async with requested(request, deps, user, batch=True) as asked:
        bundle = await store_bundle(deps.storage, user, asked.page.bundle, hold=count_storing(deps, user))
        jobs = await _recorded(deps, user, key, _requests(asked, bundle), video_s=counted_s(asked.options))
        # what they are made of may have been removed until there were rows that name it
        await keep_bundle(deps.storage, user, bundle, asked.page.bundle, hold=count_storing(deps, user))
    batch_id = batch_name(user, key)
    waiting = [job for job in jobs if job.status not in OVER]
    background_of(request).spawn(wake_in_turn(deps, waiting[:_WOKEN]), what="wake renders")
    made = BatchCreated(
        id=batch_id,
        bundle=bundle,
        render_ids=tuple(job.id for job in jobs),
        renders_url=f"/v1/renders?batch={batch_id}",
    )
    response.headers["Location"] = made.renders_url
    return made


@router.get(
    "/{batch_id}",
    operation_id="getBatch",
    summary="Read how far a batch is",
    response_model=BatchView,
    responses=responses(401, 404, 422),
)
async def get_batch(batch_id: BatchId, user: User, deps: Deps) -> BatchView:
    """Return the numbers as stored."""
    return await _view(deps, user, batch_id)


@router.post(
    "/{batch_id}/cancel",
    operation_id="cancelBatch",
    summary="Cancel what a batch has not rendered yet",
    response_model=BatchView,
    responses=responses(401, 404, 422),
)
async def cancel_batch(batch_id: BatchId, user: User, deps: Deps, request: Request) -> BatchView:
    """Begin none of its renders any more, then end those under way; what is over stays as it is."""
    await _view(deps, user, batch_id)  # a 404 where there is none
    ended = deps.directory.cancel_renders(user_id=user, id_prefix=batch_prefix(batch_id))
    await background_of(request).finish(ended)
    return await _view(deps, user, batch_id)


async def _recorded(
    deps: ApiDeps, user: str, key: str, requests: Sequence[dict[str, JsonValue]], *, video_s: float
) -> list[JobRecord]:
    at, batch_id = now(), batch_name(user, key)
    like = JobRecord(
        id="",
        user_id=user,
        project_id=default_project(user),
        session_id=None,
        kind="render",
        spec={},
        video_s=video_s,
        status="queued",
        trace=trace_parent(),
        lease_until=at + MADE_SURE,
        created_at=at,
        updated_at=at,
    )
    try:
        jobs = batch_jobs(batch_id, like, requests, at)
        return await deps.store.create_jobs(jobs, quota=render_quota(deps.settings))
    except Conflict:
        raise Conflict(
            f"the idempotency key {key!r} was used for another batch ({batch_id}); use a new key",
            context={"batch": batch_id},
        ) from None


def _requests(asked: Asked, bundle: str) -> list[dict[str, JsonValue]]:
    """Return what each render's row says of what is wanted; raises InvalidInput with the row that cannot be."""
    if json.loads(asked.options.props):
        raise InvalidInput(
            "options.props: a batch has its data in rows; leave props out", context={"field": "options.props"}
        )
    requests: list[dict[str, JsonValue]] = []
    for index, row in enumerate(asked.rows, 1):
        options = replace(asked.options, props=json.dumps(row))
        try:
            check_options(options, bundle=bundle, entry=asked.page.entry)
        except InvalidInput as error:
            option = error.context.get("field")
            field = f"rows.{index - 1}" if option in (None, "props") else f"options.{option}"
            raise InvalidInput(f"row {index}: {error.message}", context={"field": field, "row": index}) from None
        requests.append(row_spec(bundle=bundle, entry=asked.page.entry, options=options))
    return requests


async def _view(deps: ApiDeps, user: str, batch_id: str) -> BatchView:
    counts = await deps.store.count_renders(user, id_prefix=batch_prefix(batch_id))
    if not counts:
        raise NotFound(f"there is no batch {batch_id}")
    return BatchView(
        id=batch_id, renders=sum(counts.values()), renders_url=f"/v1/renders?batch={batch_id}", **dict(counts)
    )
