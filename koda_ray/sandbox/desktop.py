"""The desktop of a sandbox whose template has one and streams it, as E2B's desktop template does with noVNC.

It is a page and a WebSocket on one port, so it is seen as any other page of a process is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from koda_ray.errors import ServerFailed

if TYPE_CHECKING:
    from koda_ray.sandbox.base import PreviewEndpoint
    from koda_ray.sandbox.workshop import Workshop

__all__ = ["DESKTOP_PORT", "desktop_page", "find_desktop"]

DESKTOP_PORT = 6080
"""Where noVNC streams it unless told otherwise."""


async def find_desktop(workshop: Workshop, sandbox_id: str) -> PreviewEndpoint:
    """Say where a sandbox's desktop is streamed.

    Raises:
        NotFound: As ``Workshop.reach``.
        ServerFailed: PORT_UNAVAILABLE, nobody streams one.
    """
    try:
        return await workshop.reach(sandbox_id, DESKTOP_PORT)
    except ServerFailed as error:
        raise ServerFailed(
            f"no desktop is streamed on port {DESKTOP_PORT} of the sandbox {sandbox_id}; use an image that has one, "
            f"and start what streams it there, such as noVNC's novnc_proxy ({error.message})",
            code=error.code,
            context=error.context,
        ) from error


def desktop_page(url: str) -> str:
    """Say where noVNC's page is seen and used.

    Args:
        url: Where ``/`` of its port is shown, ending in a slash.
    """
    stream = f"{urlsplit(url).path[1:]}websockify"
    return f"{url}vnc.html?autoconnect=true&resize=scale&path={stream}"
