"""Which provider makes sandboxes here, and clearing away those that nobody needs any more."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from koda_ray.sandbox.base import SandboxProvider
from koda_ray.sandbox.record import created_at_s

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["REAP_GRACE_S", "SandboxService", "provider_from"]

REAP_GRACE_S = 60.0
"""How long a sandbox whose owner lives is left alone although nobody names it: it may just be coming into being."""


def provider_from(settings: Settings) -> SandboxProvider:
    """Make the provider that SANDBOX_PROVIDER names."""
    from koda_ray.sandbox.local import LocalProvider  # imported when sandboxes are made, not by whoever may make one

    return LocalProvider.of(settings)


class SandboxService:
    """Sandboxes as a whole: the provider, and the reaper.

    Args:
        provider: Makes, finds and removes single sandboxes.
    """

    def __init__(self, provider: SandboxProvider) -> None:
        self.provider = provider

    @classmethod
    def of(cls, settings: Settings) -> SandboxService:
        """Make the service that settings describe."""
        return cls(provider_from(settings))

    async def reap(self, live_ids: Collection[str]) -> list[str]:
        """Destroy sandboxes that are provably ours and that no row names.

        Only what lies at the provider under an id and a record of ours is looked at. One that is younger than a minute
        and whose owner still runs is left alone: its row may have been written after ``live_ids`` was read.

        Args:
            live_ids: The ids that the store holds for sessions that may still use theirs.

        Returns:
            The ids of those that were destroyed.
        """
        gone: list[str] = []
        for info in await self.provider.list():
            young = time.time() - created_at_s(info.id) < REAP_GRACE_S
            if info.id in live_ids or (young and info.owner_alive):
                continue
            await self.provider.destroy(info.id)
            gone.append(info.id)
        return gone
