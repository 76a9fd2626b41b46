"""Users, their API keys and projects, and what they uploaded."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from koda_ray.state.records import ApiKeyRecord, AssetRecord, ProjectRecord

__all__ = ["AccountStore"]


class AccountStore(Protocol):
    """Who owns what. None of it wakes anybody, and none is an event."""

    async def ensure_user(self, user_id: str) -> None:
        """Make the user's row if it is not there."""
        ...

    async def ensure_project(self, user_id: str, project_id: str, name: str) -> None:
        """Make the row of the user's project if it is not there; other users have their own under the same id."""
        ...

    async def projects(self, user_id: str, *, limit: int = 50, after: str | None = None) -> list[ProjectRecord]:
        """Read a page of a user's projects by their ids; one stays when all that was in it is removed.

        Args:
            user_id: Whose.
            limit: How many at most.
            after: Only those after this one in the list.
        """
        ...

    async def create_api_key(self, user_id: str, *, name: str = "") -> str:
        """Make a key for a user and return it; only its hash is kept, so it is shown this once."""
        ...

    async def user_for_key(self, key: str) -> str | None:
        """Return whose key it is; None for one that is unknown or revoked."""
        ...

    async def user_for_key_id(self, key_id: str) -> str | None:
        """Return whose key it is that an id names (`ApiKeyRecord`); None for one that is unknown or revoked."""
        ...

    async def has_api_keys(self, *, revoked: bool = False) -> bool:
        """Whether any key is of use; with ``revoked``, whether there ever was one."""
        ...

    async def api_keys(self) -> list[ApiKeyRecord]:
        """Read what is known of all keys, oldest first; never the keys."""
        ...

    async def revoke_api_key(self, key: str) -> bool:
        """Make a key useless, by itself or by its id; return whether it was of use before."""
        ...

    # assets
    async def add_asset(
        self, asset: AssetRecord, *, most: int | None = None, most_bytes: int | None = None, once: str = ""
    ) -> AssetRecord:
        """Insert an asset's row; its user and project are made with it.

        What takes and forks share counts once, and a picture that a session has from a note by its size alone.

        Where ``once`` is given, the asset's id ends so: one of its user that ends alike, and that they see, is returned
        in its place, and nothing is inserted. It holds however many are uploaded at once.

        Raises:
            LimitReached: With it, its user would have more than ``most``, or more bytes than ``most_bytes``; nothing
                was inserted. It holds however many are uploaded at once.
        """
        ...

    async def asset_alike(self, user_id: str, *, once: str) -> AssetRecord | None:
        """Return the asset that `add_asset` would in place of one whose id ends so, if there is one."""
        ...

    async def own_assets(self, user_id: str, *, limit: int = 50, before: str | None = None) -> list[AssetRecord]:
        """Read a user's files, newest first; ``before`` is the last id of the page before.

        None is the picture of a note, or of a session that its user does not see.
        """
        ...

    async def loose_assets(self, before: datetime, *, limit: int = 100) -> list[AssetRecord]:
        """Read everybody's assets that no session has and that were uploaded before a time, oldest first."""
        ...

    async def remove_asset(self, asset_id: str, *, user_id: str) -> AssetRecord:
        """Remove the row of an asset that no session has, and return it: its file is nobody's from then on.

        Raises:
            NotFound: It is not there, or another user's.
            Conflict: A session has it.
        """
        ...

    async def asset_keys(self, user_id: str) -> set[str]:
        """Read the storage keys that a user's assets name."""
        ...

    async def assets(self, *, user_id: str, session_id: str) -> list[AssetRecord]:
        """Read the files that a session is made with, oldest first; pictures of notes to it are none of them."""
        ...

    async def get_asset(self, asset_id: str, *, user_id: str) -> AssetRecord:
        """Read an asset's row; NotFound as with sessions."""
        ...
