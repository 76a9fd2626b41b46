"""How much one user may have at once of what all share: streams here, and sessions that are awake.

What is kept in rows (files, renders, who is awake) is counted by the write that makes it so; what is said here is for
what lives in processes. Whoever has as much as one may have is answered 429 with the time after which to come back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from koda_ray.config import Settings
from koda_ray.errors import LimitReached
from koda_ray.state.holdings import HoldObjects
from koda_ray.state.inbox import is_awake
from koda_ray.state.records import RenderQuota, SessionQuota, SessionRecord
from koda_ray.state.refusals import check_stored
from koda_ray.types import now

if TYPE_CHECKING:  # the command line counts too, and has no use for a server
    from koda_ray.serve.deps import ApiDeps

__all__ = [
    "MAX_STREAMS",
    "SPARE_REQUESTS",
    "Streams",
    "count_storing",
    "may_store",
    "may_wake",
    "render_quota",
    "session_quota",
]

MAX_STREAMS = 800
"""How many streams are open in this process at once: a replica takes 1,000 requests, and some are no streams."""
SPARE_REQUESTS = 50
"""How many requests a user may have under way beside as many streams as one may have."""
_AGAIN_S = 10.0
_WAKING = timedelta(seconds=60)


class Streams:
    """Counts who follows something here, or waits for a command: a user has so many of these requests at most.

    And it counts all requests of each user, whatever they wait for: a session that starts, a sandbox, a command that
    comes after another. A replica takes 1,000, and who has them all has the server.

    Args:
        per_user: How many.
        total: How many all users have together.
    """

    def __init__(self, per_user: int, *, total: int = MAX_STREAMS) -> None:
        self._per_user = per_user
        self._total = total
        self._open: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()

    def count(self, user_id: str) -> int:
        """How many a user has open here."""
        return self._open[user_id]

    @contextmanager
    def joined(self, user_id: str) -> Generator[None]:
        """Have one open for as long as the block runs.

        Raises:
            LimitReached: LIMIT_REACHED, the user has as many as one may, or all together have.
        """
        if self._open[user_id] >= self._per_user:
            raise LimitReached(
                f"{self._open[user_id]} streams of yours are open, terminals, commands that are waited for "
                "and slow uploads among them, and no more may be: close some, or have KODA_USER_STREAMS raised",
                retry_after_s=_AGAIN_S,
                context={"limit": self._per_user},
            )
        if self._open.total() >= self._total:
            raise LimitReached(
                f"{self._total} streams are open on this server, as many as it takes: read the state instead, and come "
                "back in a moment",
                retry_after_s=_AGAIN_S,
            )
        self._open[user_id] += 1
        try:
            yield
        finally:
            self._open[user_id] -= 1
            if not self._open[user_id]:
                del self._open[user_id]

    @contextmanager
    def asked(self, user_id: str) -> Generator[None]:
        """Have a request under way for as long as the block runs.

        Raises:
            LimitReached: LIMIT_REACHED, the user has as many as one may.
        """
        most = self._per_user + SPARE_REQUESTS
        if self._asked[user_id] >= most:
            raise LimitReached(
                f"{most} requests of yours are under way, as many as may be: wait for their answers, or have "
                "KODA_USER_STREAMS raised",
                retry_after_s=_AGAIN_S,
                context={"limit": most},
            )
        self._asked[user_id] += 1
        try:
            yield
        finally:
            self._asked[user_id] -= 1
            if not self._asked[user_id]:
                del self._asked[user_id]


def render_quota(settings: Settings) -> RenderQuota:
    """Return what a user may have of page renders."""
    return RenderQuota(
        renders=settings.user_renders, video_s=settings.user_render_s, stored_bytes=settings.user_stored_mb << 20
    )


def session_quota(settings: Settings, *, more: int = 0) -> SessionQuota:
    """Return what a user may have of sessions; ``more`` are to be made right after one."""
    return SessionQuota(
        sessions=settings.max_sessions_per_user or None,
        awake=settings.user_sessions,
        stored_bytes=settings.user_stored_mb << 20,
        more=more,
    )


def count_storing(deps: ApiDeps, user_id: str) -> HoldObjects:
    """Count what a user's request is about to store; raises LimitReached where they have as much as one may."""
    return partial(deps.store.hold, user_id, most_bytes=deps.settings.user_stored_mb << 20)


async def may_store(deps: ApiDeps, user_id: str) -> None:
    """Make sure that a user may store more. Raises LimitReached where they have stored as much as one may."""
    check_stored(await deps.store.stored_bytes(user_id), deps.settings.user_stored_mb << 20)


async def may_wake(deps: ApiDeps, row: SessionRecord) -> None:
    """Make sure that a session may be awake without having been asked anything: else the command's own write counts.

    Where its user has stored as much as they may, only one that is awake is shown: its sandbox is saved when it ends.

    From then on it counts for as long as it may take to wake, so that requests at once wake no more than that.

    Raises:
        LimitReached: LIMIT_REACHED, the user has as many awake as one may, or stored as much.
        NotFound: It was deleted meanwhile.
    """
    if not is_awake(row.owes, row.lease_until):
        await may_store(deps, row.user_id)
    most = deps.settings.user_sessions
    await deps.store.admit_session(row.id, user_id=row.user_id, most=most, until=now() + _WAKING)
