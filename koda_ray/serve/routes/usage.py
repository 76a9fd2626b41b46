"""What work has used and what it may use, as the ledger says. Reading it wakes nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from koda_ray.serve.context import Deps, OwnSession, User
from koda_ray.serve.problem import responses
from koda_ray.serve.usage import session_usage, user_usage
from koda_ray.wire import SessionUsage, UserUsage

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["usage"])


@router.get(
    "/sessions/{session_id}/usage",
    operation_id="getSessionUsage",
    summary="Read what a session has used",
    responses=responses(401, 404, 422),
)
async def get_session_usage(row: OwnSession, deps: Deps) -> SessionUsage:
    """Return what was used and what is held for work under way, beside the limits, and which agent or render it was."""
    return await session_usage(deps.store, row, deps.settings)


@router.get(
    "/usage",
    operation_id="getUsage",
    summary="Read what all of your work has used in a month",
    responses=responses(401, 422),
)
async def get_usage(
    user: User,
    deps: Deps,
    month: Annotated[
        str | None, Query(pattern=r"^\d{4}-(0[1-9]|1[0-2])$", description="Year and month (UTC); else the present one")
    ] = None,
) -> UserUsage:
    """Return what was used and what is held, beside the limits. What deleted sessions used is in it."""
    return await user_usage(deps.store, user, deps.settings, month=month)
