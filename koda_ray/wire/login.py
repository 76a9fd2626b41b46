"""Who is signed in, and what the server can do for them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from koda_ray.types import Model

__all__ = ["Capabilities", "LoginView"]


class LoginView(Model):
    """Whose requests these are; ``signed_in`` where a cookie says so, until ``expires_at`` if nobody comes back."""

    user: str
    signed_in: bool
    expires_at: datetime | None = None


class Capabilities(Model):
    """What this server has to work with.

    ``director`` is who the agents are: models, which are named, or the built-in director, which knows fixed words.
    """

    director: Literal["models", "offline"]
    models: tuple[str, ...] = ()
