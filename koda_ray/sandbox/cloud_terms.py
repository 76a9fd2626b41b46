"""How a sandbox is made and lives at a provider of sandboxes, whichever it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from koda_ray.cancellation import finish, see_through
from koda_ray.config import Settings
from koda_ray.errors import KodaError
from koda_ray.sandbox.egress.rules import EgressRules

__all__ = ["CloudTerms", "made_or_ended"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class CloudTerms:
    """How a sandbox lives there.

    Args:
        lifetime_s: How long one lives after its last use (SANDBOX_LIFETIME_S).
        pids: How many processes a project may have (SANDBOX_PIDS).
        egress: What sandboxes may reach, and their commands may name; by default nothing. Of it providers hold the
            names, and Modal addresses too: they count no bytes and deny no networks.
    """

    lifetime_s: int = 1800
    pids: int = 256
    egress: EgressRules = field(default_factory=EgressRules)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Read them from settings."""
        return cls(lifetime_s=settings.sandbox_lifetime_s, pids=settings.sandbox_pids, egress=EgressRules.of(settings))


async def made_or_ended(making: Coroutine[Any, Any, T], end: Callable[[], Coroutine[Any, Any, object]]) -> T:
    """Have something made; where whoever asked is cancelled meanwhile, it is ended once it is there.

    Args:
        making: Makes it: the provider may be about to, so it is waited for.
        end: Ends it; what fails of that is for whoever clears up.
    """
    task = asyncio.ensure_future(making)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(asyncio.CancelledError):
            await see_through(task)
        with suppress(KodaError):
            await finish(end())
        raise
