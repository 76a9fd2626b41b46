"""What a server has to work with, for whoever shows a person what can be asked of it."""

from __future__ import annotations

from fastapi import APIRouter

from koda_ray.serve.context import Deps, User
from koda_ray.serve.problem import responses
from koda_ray.wire import Capabilities

__all__ = ["router"]

router = APIRouter(prefix="/v1/capabilities", tags=["health"])


@router.get("", operation_id="getCapabilities", summary="Read what the server can do", responses=responses(401))
async def capabilities(user: User, deps: Deps) -> Capabilities:
    """Say who the agents are."""
    if deps.settings.uses_offline_director:
        return Capabilities(director="offline")
    return Capabilities(director="models", models=tuple(dict.fromkeys(model for _, model in deps.settings.models)))
