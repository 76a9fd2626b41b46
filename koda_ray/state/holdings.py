"""What lies in storage by its content, counted: which objects a user has, how large they are, and who needs them.

A checkpoint's files, its list, built pages and rendered parts are stored once, however many name them, so no row of
theirs says what a user takes. Here each object has a row of its own, written before the object is: what is stored is
counted, whoever is cut off when. (Of a part, which a worker without a database stores, it is written with the row of
the first unit that has it.) Pictures that agents took, and by how much two videos differ, are counted here as well, for
their session.

A session is among the holders of what its checkpoints name; when it is deleted, what nobody else holds is marked to go,
removed, and forgotten, in this order. Whoever comes to hold what is marked waits until it is gone, and stores it anew.
Pages and parts are nobody's in particular: they are held by the user, until the sweep or a removal takes them. The
sweep also counts parts and pictures that are there and were not, and finds what was counted and never stored.

Checkpoints from before this was counted hold nothing yet. Until the sweep has read them, nothing of their user's goes.
One whose list is lost holds what is known of its session; one whose list cannot be read again and again, but may be
some day, holds all that its user has at that time: that stays as long as its session, and what comes later goes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol, TypeAlias

from koda_ray.state.records import CheckpointRecord

__all__ = ["THE_USER", "HoldObjects", "HoldingStore"]

THE_USER = ""
"""The holder of what belongs to no session."""
HoldObjects: TypeAlias = Callable[[Mapping[str, int]], Awaitable[None]]
"""Has objects counted, by key with their sizes in bytes, before they are stored; raises what refuses them."""


class HoldingStore(Protocol):
    """Who knows what a user has stored, and who needs it."""

    async def hold(
        self,
        user_id: str,
        sizes: Mapping[str, int],
        *,
        holder: str = THE_USER,
        checkpoint: str | None = None,
        most_bytes: int | None = None,
    ) -> None:
        """Count objects that are about to be stored, and keep them for a holder.

        Args:
            user_id: Whose they are.
            sizes: Their sizes in bytes, by key.
            holder: A session's id, or the user themselves.
            checkpoint: The session's checkpoint of which these are all, where that did not hold them yet.
            most_bytes: What the user may have stored before this; any amount when None.

        Raises:
            NotFound: There is no such session of this user; nothing was counted, as with the others.
            LimitReached: They have stored as much as they may.
            Unavailable: One of them is being removed, and that takes long.
        """
        ...

    async def hold_all(self, user_id: str, *, holder: str, checkpoint: str) -> None:
        """Keep all that a user has for a session, since nobody can tell which of it a checkpoint of it holds.

        Raises:
            NotFound: There is no such session of this user.
            Unavailable: Something is being removed, and that takes long.
        """
        ...

    async def let_go(self, user_id: str, *, holder: str) -> list[str]:
        """Hold nothing any more, and mark what nobody of the user's holds.

        Returns:
            The keys of all that is marked, also of what an earlier call marked: to be removed, and then forgotten.
            None are, while the user has checkpoints that hold nothing yet.
        """
        ...

    async def forget(self, user_id: str, keys: Collection[str] | None) -> None:
        """Count objects no more that are removed; all of the user's when None."""
        ...

    async def stored_bytes(self, user_id: str) -> int:
        """Count the bytes of a user's videos, uploaded files, and of all that is held."""
        ...

    async def counted(self, user_id: str, *, below: str, after: str = "", limit: int = 500) -> list[str]:
        """Read the keys below a prefix that are counted, after one of them, in an order of the database's own."""
        ...

    async def unheld(self, *, after: str = "", limit: int = 100) -> list[CheckpointRecord]:
        """Read checkpoints that hold nothing yet, of sessions that are not closed, with ids after one, in order."""
        ...
