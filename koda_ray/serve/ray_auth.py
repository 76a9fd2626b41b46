"""How processes of a Ray cluster know each other, chosen before Ray is imported: it reads this once.

Ray's ports listen on every interface, and whoever reaches them can run code. So a cluster that we start for ourselves
gets a token that nobody else knows, made anew each time, whatever the environment says. And it listens on loopback: its
figures, in which the names of sessions stand, are given to whoever asks, and one machine needs no other address.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, MutableMapping
from pathlib import Path

__all__ = ["choose_ray_auth"]


def choose_ray_auth(environment: MutableMapping[str, str], *, address: str | None) -> None:
    """Set Ray's authentication for this process and all that it starts.

    Args:
        environment: The process's own.
        address: Of a cluster that is somebody else's, and so is the choice: what is set stays; with a token but no
            mode, the mode is ``token``, which Ray does of itself only where it finds the cluster. None where we start
            one.

    Source: Ray, token authentication.
    """
    environment.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is not None:
        has_token = "RAY_AUTH_TOKEN" in environment or "RAY_AUTH_TOKEN_PATH" in environment or _has_file(environment)
        environment.setdefault("RAY_AUTH_MODE", "token" if has_token else "disabled")
        return
    # what keeps Ray to loopback where other systems' firewalls ask about it; it takes no such address by its name
    environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    environment["RAY_AUTH_MODE"] = "token"
    environment["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    environment.pop("RAY_AUTH_TOKEN_PATH", None)


def _has_file(environment: Mapping[str, str]) -> bool:
    """Whether there is the file of `ray get-auth-token --generate`, with which `ray start` asks for a token."""
    home = environment.get("HOME")
    return home is not None and (Path(home) / ".ray" / "auth_token").is_file()
