"""Whether the process answers, and whether it could do work: for people, launchers and load balancers."""

from __future__ import annotations

from fastapi import APIRouter, Response

from koda_ray import __version__
from koda_ray.errors import KodaError, NotFound
from koda_ray.serve.context import Deps
from koda_ray.types import now
from koda_ray.wire import Health, Readiness

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["health"])


@router.get("/health", operation_id="health", summary="Whether the server answers")
async def health() -> Health:
    """Answer without touching anything."""
    return Health(version=__version__)


@router.get(
    "/ready",
    operation_id="ready",
    summary="Whether work would be taken",
    responses={503: {"model": Readiness, "description": "Some part does not work"}},
)
async def ready(deps: Deps, response: Response) -> Readiness:
    """Ask the database and the storage."""
    parts = {"draining": "stopping"} if deps.draining.is_set() else {}
    for name, check in (("database", _database), ("storage", _storage)):
        try:
            await check(deps)
            parts[name] = "ok"
        except (KodaError, OSError) as error:
            parts[name] = str(error)
    good = all(value == "ok" for value in parts.values())
    response.status_code = 200 if good else 503
    return Readiness(ready=good, parts=parts)


async def _database(deps: Deps) -> None:
    await deps.store.owed(now(), limit=1)


async def _storage(deps: Deps) -> None:
    try:
        await deps.storage.size("ready")
    except NotFound:
        return
