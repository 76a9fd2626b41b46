"""What the preview's proxy shows beside sessions' dev servers, and what stands around it.

Shown are ports of people's own sandboxes, and stored pages. Around it may be a proxy, and pages that frame it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from koda_ray.config import Settings
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.sandbox.own_project import find_preview
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.workshop import Workshop
from koda_ray.serve.signing import DEV_SERVER
from koda_ray.serve.stored_pages import StoredPages
from koda_ray.state.store import Store

__all__ = ["NOTHING_ELSE", "ON_ITS_OWN", "Sources", "Surroundings", "reaching"]

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


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What stands around the proxy.

    Args:
        origin: Where browsers find it, if not where it is asked: somebody may stand in front of it.
        framers: The origins whose pages may show it in a frame, beside the API's own.
    """

    origin: str | None = None
    framers: tuple[str, ...] = ()

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Have whoever may use the API from another origin show previews there."""
        return cls(origin=settings.preview_origin, framers=settings.other_origins)


ON_ITS_OWN = Surroundings()


def reaching(store: Store, providers: Providers) -> Reach:
    """Find ports of people's own sandboxes where their rows say that they are."""

    async def reach(sandbox_id: str, user_id: str, port: int) -> PreviewEndpoint:
        workshop = Workshop(store, providers, user_id=user_id)
        return await (find_preview(workshop, sandbox_id) if port == DEV_SERVER else workshop.reach(sandbox_id, port))

    return reach
