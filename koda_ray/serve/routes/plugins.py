"""What a canvas can show of this server: agents as nodes, with the sandboxes that they have here."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from koda_ray.config import Settings
from koda_ray.errors import NotFound
from koda_ray.plugins import AgentPlugin, PersistentSandbox, PluginList, SandboxResources, animation_generator
from koda_ray.serve.context import Deps, User
from koda_ray.serve.problem import responses

__all__ = ["router"]

router = APIRouter(prefix="/v1/plugins", tags=["plugins"])


@router.get("", operation_id="listPlugins", summary="List what a canvas can show as a node", responses=responses(401))
async def plugins(user: User, deps: Deps) -> PluginList:
    """Return each with its handles, settings, phases and needs."""
    return PluginList(plugins=_offered(deps.settings))


@router.get("/{plugin_id}", operation_id="getPlugin", summary="Read what a node is", responses=responses(401, 404, 422))
async def plugin(
    plugin_id: Annotated[str, Path(max_length=64, pattern=r"^[a-z0-9-]+$", description="A plugin's id")],
    user: User,
    deps: Deps,
) -> AgentPlugin:
    """Return one plugin's definition."""
    for each in (offered := _offered(deps.settings)):
        if each.id == plugin_id:
            return each
    raise NotFound(f"no plugin {plugin_id!r} here; there is: {', '.join(each.id for each in offered)}")


def _offered(settings: Settings) -> tuple[AgentPlugin, ...]:
    sandbox = PersistentSandbox(
        type="theatre",
        template=settings.e2b_template if settings.sandbox_provider == "e2b" else settings.sandbox_image,
        timeout=settings.sandbox_lifetime_s,
        checkpoint_interval=settings.heartbeat_s,
        idle_timeout=settings.idle_timeout_s,
        resources=SandboxResources(memory=f"{settings.sandbox_memory_mb}MB"),
    )
    return (animation_generator(sandbox),)
