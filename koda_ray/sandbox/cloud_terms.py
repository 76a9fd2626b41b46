"""How a sandbox lives at a provider of sandboxes, whichever it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from koda_ray.config import Settings
from koda_ray.sandbox.egress.rules import EgressRules

__all__ = ["CloudTerms"]


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
