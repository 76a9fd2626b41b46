"""Whether the process answers, and whether it could do work: for people, launchers and load balancers."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from koda_ray import __version__
from koda_ray.errors import KodaError
from koda_ray.serve.context import Deps, background_of, callers_of, parts_of
from koda_ray.wire import Health, Readiness

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["health"])
_HIDDEN = "failed; the server's log says why, and so does this address to a request with a key"


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
async def ready(deps: Deps, request: Request, response: Response) -> Readiness:
    """Try the database, writes too, and the storage; once a second, whoever asks.

    What is wrong, with its paths, is told to whoever has a key.
    """
    parts = {"draining": "stopping"} if deps.draining.is_set() else {}
    for name, wrong in (await background_of(request).finish(parts_of(request).seen())).items():
        parts[name] = "ok" if wrong is None else wrong if await _is_known(request) else _HIDDEN
    good = all(value == "ok" for value in parts.values())
    response.status_code = 200 if good else 503
    return Readiness(ready=good, parts=parts)


async def _is_known(request: Request) -> bool:
    try:
        await callers_of(request).user(request)
    except (KodaError, OSError):  # no key, too many wrong ones, or nobody can say whose it is
        return False
    return True
