"""Opening what a session needs, from settings: database, storage, sandboxes, model provider."""

from __future__ import annotations

from collections.abc import Callable

from koda_ray.actors.session_parts import SessionParts
from koda_ray.agent.named_hooks import NamedHooks
from koda_ray.config import Settings
from koda_ray.llm.base import ModelProvider
from koda_ray.render.protocol import RenderExecutor
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store

__all__ = ["CONNECTIONS_EACH", "model_provider", "open_parts", "open_store", "sandbox_provider"]


CONNECTIONS_EACH = 2
"""How many connections to the database an actor has at most: there may be a thousand, and PostgreSQL takes 100."""


async def open_store(settings: Settings) -> Store:
    """Connect an actor's process to the database, bringing its schema up to date."""
    from koda_ray.state.stores import store_from

    store = store_from(settings, processes="many", connections=CONNECTIONS_EACH)
    await store.open()
    return store


def sandbox_provider(settings: Settings, *, deployment: str) -> SandboxProvider:
    """Choose the sandbox provider of a deployment (``Store.deployment``)."""
    from koda_ray.sandbox.service import provider_from

    return provider_from(settings, deployment=deployment)


def model_provider(settings: Settings) -> ModelProvider:
    """Choose who answers: Claude with a key, the offline director without."""
    from koda_ray.llm.registry import provider_for
    from koda_ray.roles.offline import OfflineDirector

    return provider_for(settings, offline=OfflineDirector())


async def open_parts(
    settings: Settings,
    *,
    executor: RenderExecutor,
    host: str,
    rested: Callable[[], None],
    ended: Callable[[], None],
) -> SessionParts:
    """Open everything a session is made with.

    Args:
        settings: Where everything is.
        executor: Renders; Ray's on a cluster, this process's own otherwise.
        host: This process, for the session's row.
        rested: Called when the session's work has come to rest.
        ended: Called once the session is over.

    Raises:
        InvalidInput: A hook that the settings name is none.
    """
    store = await open_store(settings)
    return SessionParts(
        settings=settings,
        store=store,
        storage=Storage.from_settings(settings),
        sandboxes=sandbox_provider(settings, deployment=await store.deployment()),
        provider=model_provider(settings),
        executor=executor,
        host=host,
        rested=rested,
        ended=ended,
        hooks=NamedHooks(settings.hook_names).of,
    )
