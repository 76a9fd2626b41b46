"""What work has used, and may use."""

from __future__ import annotations

from typing import Literal

from koda_ray.types import Budget, Model

__all__ = [
    "SessionUsage",
    "Usage",
    "UsagePart",
    "UserUsage",
]


class Usage(Model):
    """What was used; ``unpriced_tokens`` are those of ``tokens`` that ``cost_usd`` does not hold."""

    tokens: int = 0
    cost_usd: float = 0.0
    sandbox_minutes: float = 0.0
    render_minutes: float = 0.0
    unpriced_tokens: int = 0


class UsagePart(Model):
    """What one agent used of one model in so many calls, or what sandboxes or renders did."""

    kind: Literal["model", "sandbox", "render"]
    agent: str | None
    model: str | None
    count: int
    spent: Usage


class SessionUsage(Model):
    """What a session has used, and holds for work under way, beside its limits."""

    session_id: str
    spent: Usage
    held: Usage
    budget: Budget
    parts: tuple[UsagePart, ...]


class UserUsage(Model):
    """What all of a user's work has used in a month (UTC), and holds, beside the limits of the server's settings.

    ``awake`` are the sessions that have a process now, or are about to get one; no more than ``most_awake`` may. There
    are ``sessions`` in all, any number where ``most_sessions`` is null, and ``stored_bytes`` of videos and files.
    """

    month: str
    spent: Usage
    held: Usage
    budget: Budget
    awake: int
    most_awake: int
    sessions: int
    most_sessions: int | None
    stored_bytes: int
    most_stored_bytes: int
