"""What the preview's proxy shows beside sessions' dev servers: ports of people's own sandboxes, and stored pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.sandbox.own_project import find_preview
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.workshop import Workshop
from koda_ray.serve.signing import DEV_SERVER
from koda_ray.serve.stored_pages import StoredPages
from koda_ray.state.store import Store

__all__ = ["NOTHING_ELSE", "Sources", "reaching"]

Reach = Callable[[str, str, int], Awaitable[PreviewEndpoint]]
"""Says where a sandbox's port answers, given the sandbox, its user and the port or DEV_SERVER."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What is shown beside sessions' dev servers.

    Args:
        reach: Says where ports of people's own sandboxes answer; None where they are not shown.
        pages: Gives away built pages that lie in storage; None where they are not shown.
    """

    reach: Reach | None = None
    pages: StoredPages | None = None


NOTHING_ELSE = Sources()


def reaching(store: Store, providers: Providers) -> Reach:
    """Find ports of people's own sandboxes where their rows say that they are."""

    async def reach(sandbox_id: str, user_id: str, port: int) -> PreviewEndpoint:
        workshop = Workshop(store, providers, user_id=user_id)
        return await (find_preview(workshop, sandbox_id) if port == DEV_SERVER else workshop.reach(sandbox_id, port))

    return reach
