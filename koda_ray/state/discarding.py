"""Sessions that somebody deleted and may still want back: discarded ones, which are deleted at a time.

Until then everything of a discarded session is there, and whatever looks for what may be removed counts it as one that
stays. But its user sees neither it nor what is its any more, its streams are over, nobody activates it, and it takes
none of the room that a user has for sessions. It is no state of the session's own: whoever has it is not fenced, so
that its process can still save what it has before it ends. As long as one has it, it counts among those that are awake.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from koda_ray.state.records import SessionQuota, SessionRecord

__all__ = ["DiscardingStore", "quota_on_return"]


class DiscardingStore(Protocol):
    """Deleting what can be had back, and reading what is left in the order of its last change."""

    async def discard_session(self, session_id: str, *, user_id: str, delete_at: datetime) -> SessionRecord:
        """Have a session deleted at a time; one that was discarded before, at the earlier of both times.

        Raises:
            NotFound: There is no such session of this user, or its deletion has begun.
        """
        ...

    async def restore_session(
        self, session_id: str, *, user_id: str, quota: SessionQuota | None = None
    ) -> SessionRecord:
        """Have a session back as it was discarded; one that is not discarded stays as it is.

        Raises:
            NotFound: There is no such session of this user, or its deletion has begun.
            LimitReached: With it, the user would have more than ``quota``, of those that are awake only where it owes
                work or is asked something; it stays discarded. A final video that it owes, or is asked for, is never
                too much: it was taken when it was asked for, and counts among the user's again.
        """
        ...

    async def discarded_held(self, at: datetime, *, limit: int = 1_000) -> list[str]:
        """Find discarded sessions that some process still holds: their ids, those first that are due first."""
        ...

    async def close_discarded(self, at: datetime, *, limit: int = 100) -> list[SessionRecord]:
        """Begin to delete discarded sessions whose time has come, as `Store.close_session`, longest due first."""
        ...

    async def changed_sessions(
        self,
        user_id: str,
        *,
        limit: int = 50,
        before: tuple[datetime, str] | None = None,
        pinned: bool | None = None,
        group: str | None = None,
    ) -> list[SessionRecord]:
        """Read a user's sessions, last changed first.

        Args:
            user_id: Whose.
            limit: How many at most.
            before: When the last one of the page before had changed, and its id.
            pinned: As of `Store.list_sessions`, and so is ``group``.
            group: As said.
        """
        ...


def quota_on_return(row: SessionRecord, quota: SessionQuota, *, asked: bool) -> SessionQuota:
    """Return what of a user's room a session takes that comes back.

    Args:
        row: It takes a place among those awake where it owes work.
        quota: What there is.
        asked: Whether commands wait for it, which takes one as well.
    """
    wakes = asked or row.owes is not None
    return SessionQuota(sessions=quota.sessions, awake=quota.awake if wakes else None)
