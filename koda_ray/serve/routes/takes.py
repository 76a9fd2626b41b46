"""Several takes of one prompt, made beside each other: sessions that have a group in common, and nothing else."""

from __future__ import annotations

from fastapi import APIRouter, Request

from koda_ray.errors import InvalidInput
from koda_ray.serve.context import Deps, IdempotencyKey, User, background_of
from koda_ray.serve.once import group_name
from koda_ray.serve.problem import responses
from koda_ray.serve.routes.sessions import begun, created
from koda_ray.wire import CreateTakes, TakesCreated

__all__ = ["router"]

router = APIRouter(prefix="/v1/takes", tags=["sessions"])


@router.post(
    "",
    operation_id="createTakes",
    summary="Make several videos from a prompt, to choose from",
    status_code=202,
    responses=responses(401, 404, 409, 413, 422, 429, 503),
)
async def create_takes(
    body: CreateTakes, user: User, key: IdempotencyKey, deps: Deps, request: Request
) -> TakesCreated:
    """Record 2 to 4 sessions, each of which looks different, and let their agents begin. Each has all the files.

    They are listed by `GET /v1/sessions?group=...`. Where a limit leaves no room for all of them, none is made. Where
    others took that room in between, those before are there; the same request with the same key makes the rest later.
    """
    if body.options.take is not None:
        raise InvalidInput("say takes, not options.take, where several are made", context={"field": "options.take"})
    group = group_name(user, key)
    rows = [await begun(body, user, f"{key}.{take}", deps, group=group, take=take) for take in range(1, body.takes + 1)]
    for row in rows:
        if row.owes is not None:
            background_of(request).spawn(deps.directory.wake(row.id), what="wake")
    return TakesCreated(group=group, sessions=tuple(created(row) for row in rows))
