"""What is stored by its content, for all of a user's work, is removed only while nobody can come to need it.

Whoever begins something (a session, a fork, a render) may need any of it, without naming it yet. So whoever removes it
takes a lock in the transaction that finds the user without any work, and whoever begins something looks at that lock
in the transaction that makes its row. Each of the two sees the other, whichever comes first.

A single bundle goes where no job names it. A session that is at work may be about to: it says so in its row (what it
owes) before it looks at the lock, and whoever takes the lock looks for sessions that owe something.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from koda_ray.errors import Unavailable
from koda_ray.state.tiers import LockRecord

__all__ = ["CONTENT_LEASE", "ContentStore", "after_removal", "content_lock", "in_removal"]

T = TypeVar("T")
CONTENT_LEASE = timedelta(seconds=60)
"""How long what is being removed stays taken where whoever removes it dies."""
_WAIT_S = 10.0
_PAUSE_S = 0.02


class ContentStore(Protocol):
    """Who knows whether a user works on anything."""

    async def take_content(self, user_id: str, *, holder: str, lease_until: datetime) -> LockRecord | None:
        """Take all that a user stored by its content, to remove it.

        Until the lock is released, or its lease is over, no session and no render of the user's is made: whoever tries
        waits a while, and then gets Unavailable.

        Returns:
            The lock; None where the user has a session that is not closed, or a render that is not of a closed one.

        Raises:
            Unavailable: Somebody else removes it now.
        """
        ...

    async def take_bundle(
        self, user_id: str, bundle: str, *, holder: str, lease_until: datetime, finished: bool = True
    ) -> LockRecord | None:
        """Take a bundle, and what was rendered from it, to remove them; the lock is that of `take_content`.

        Args:
            user_id: Whose it is.
            bundle: Its content hash.
            holder: Who asks, for people to read.
            lease_until: Until when it is taken where its holder dies.
            finished: Whether a job that is over keeps it as well.

        Returns:
            The lock; None where a job names it that is not of a closed session, or a session is at work.

        Raises:
            Unavailable: Somebody else removes something now.
        """
        ...

    async def use_content(self, user_id: str) -> None:
        """Make sure that a session that owes work may store, or find, what lies there by its content.

        From then on until it owes nothing any more, none of it is removed but what the sweep has found unused for days.

        Raises:
            Unavailable: Something is being removed, and that takes long.
        """
        ...


def content_lock(user_id: str) -> str:
    """Return the name of the lock."""
    return f"content:{user_id}"


def in_removal(user_id: str) -> Unavailable:
    """Say why nothing can begin."""
    return Unavailable(
        f"what deleted sessions of {user_id!r} left in storage is being removed at this moment; try again in a moment",
        context={"retryAfterS": 2.0},
    )


async def after_removal(begin: Callable[[], Awaitable[T]]) -> T:
    """Begin something once nothing is being removed any more.

    Args:
        begin: Does it in one transaction, and raises `in_removal` where it may not.

    Raises:
        Unavailable: That takes longer than a request should.
    """
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            return await begin()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_PAUSE_S)
