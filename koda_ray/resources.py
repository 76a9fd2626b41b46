"""What the code asks Ray for: the names of the resources, and how much of what each piece of work takes.

Whoever starts a node offers these by name, and whoever checks a cluster's files reads them here, so that code and files
cannot drift apart. A resource that no node offers is waited for without end: Ray takes it for one that may still come.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ASKED",
    "CAPTURE_CPUS",
    "CAPTURE_MEMORY_BYTES",
    "CHROMIUM_RESOURCE",
    "COORDINATOR_SHARE",
    "JOIN_CPUS",
    "JOIN_MEMORY_BYTES",
    "SESSION_RESOURCE",
    "URGENT_RESOURCE",
    "AskedResource",
]

CHROMIUM_RESOURCE = "chromium"
"""How many browsers a node runs at once; start Ray with ``resources={"chromium": N}``."""

URGENT_RESOURCE = "chromium_urgent"
"""How many more a node runs for what somebody waits for; without it, such work waits its turn."""

SESSION_RESOURCE = "session"
"""How many sessions a node holds at once; on a cluster, those of machines that are not taken away."""

COORDINATOR_SHARE = 0.001
"""What the janitor and each page render's coordinator take of a session's place: they are on such machines, too."""

CAPTURE_CPUS = 0.5
CAPTURE_MEMORY_BYTES = 1024**3
JOIN_CPUS = 1
JOIN_MEMORY_BYTES = 512 * 1024**2


@dataclass(frozen=True)
class AskedResource:
    """A resource that some work asks for.

    Args:
        name: Ray's name for it.
        work: What takes it.
        needed: Whether that work waits without end where no node offers it; else it takes another's.
    """

    name: str
    work: str
    needed: bool


ASKED = (
    AskedResource(CHROMIUM_RESOURCE, "renders", needed=True),
    AskedResource(URGENT_RESOURCE, "previews and looks at a page, which wait behind finals without it", needed=False),
    AskedResource(SESSION_RESOURCE, "sessions, the janitor, and who coordinates a page render", needed=True),
)
"""All resources of our own that the code asks for."""
