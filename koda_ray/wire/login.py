"""Who is signed in."""

from __future__ import annotations

from datetime import datetime

from koda_ray.types import Model

__all__ = ["LoginView"]


class LoginView(Model):
    """Whose requests these are; ``signed_in`` where a cookie says so, until ``expires_at`` if nobody comes back."""

    user: str
    signed_in: bool
    expires_at: datetime | None = None
