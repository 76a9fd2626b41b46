"""Users, their API keys, projects and uploaded files in a folder of JSON."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import cast

from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_rows import decode, encode, is_seen, moment, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.records import ApiKeyRecord, AssetRecord, ProjectRecord, SessionRecord
from koda_ray.state.refusals import attached, no_such, of_another, too_many_assets
from koda_ray.state.rows import KEY_ID, KEY_ID_CHARS, key_hash
from koda_ray.types import NodeState, now

__all__ = [
    "JsonAccounts",
    "copy_assets",
    "count_stored",
    "ensure_project",
    "ensure_user",
    "give_assets",
    "give_pictures",
    "is_of_seen",
]


class JsonAccounts:
    """The part of `JSONStore` that knows who owns what."""

    _database: JsonDatabase

    async def ensure_user(self, user_id: str) -> None:
        """Make the user's row if it is not there."""
        await self._database.write(lambda change: ensure_user(change, user_id))

    async def ensure_project(self, user_id: str, project_id: str, name: str) -> None:
        """Make the rows of the user and of their project if they are not there."""
        await self._database.write(lambda change: ensure_project(change, user_id, project_id, name))

    async def projects(self, user_id: str, *, limit: int = 50, after: str | None = None) -> list[ProjectRecord]:
        """Read a page of a user's projects by their ids."""
        last = None if after is None else words(after)

        def work(tables: Tables) -> list[ProjectRecord]:
            found = sorted(tables.of("projects", user_id), key=lambda row: str(row["id"]))
            return [decode(ProjectRecord, row) for row in found if last is None or str(row["id"]) > last][:limit]

        return await self._database.read(work)

    async def create_api_key(self, user_id: str, *, name: str = "") -> str:
        """Make a key for a user.

        Returns:
            The key, which is not stored and cannot be shown again.
        """
        key = f"koda_{secrets.token_urlsafe(32)}"

        def work(change: Transaction) -> None:
            ensure_user(change, user_id)
            row = {"key_hash": key_hash(key), "user_id": words(user_id), "name": words(name)}
            change.put("api_keys", {**row, "created_at": moment(now()), "revoked_at": None})

        await self._database.write(work)
        return key

    async def user_for_key(self, key: str) -> str | None:
        """Return whose key it is; None for one that is unknown or revoked."""

        def work(tables: Tables) -> str | None:
            row = tables.get("api_keys", key_hash(key))
            return str(row["user_id"]) if row is not None and row["revoked_at"] is None else None

        return await self._database.read(work)

    async def user_for_key_id(self, key_id: str) -> str | None:
        """Return whose key it is that an id names; None for one that is unknown or revoked."""
        if KEY_ID.fullmatch(key_id) is None:
            return None

        def work(tables: Tables) -> str | None:
            named = (row for row in tables.of("api_keys") if str(row["key_hash"]).startswith(key_id))
            return next((str(row["user_id"]) for row in named if row["revoked_at"] is None), None)

        return await self._database.read(work)

    async def has_api_keys(self, *, revoked: bool = False) -> bool:
        """Whether any key is of use; with ``revoked``, whether there ever was one."""
        return await self._database.read(
            lambda tables: any(revoked or row["revoked_at"] is None for row in tables.of("api_keys"))
        )

    async def api_keys(self) -> list[ApiKeyRecord]:
        """Read what is known of all keys, oldest first."""

        def work(tables: Tables) -> list[ApiKeyRecord]:
            rows = sorted(tables.of("api_keys"), key=lambda row: (str(row["created_at"]), str(row["key_hash"])))
            return [decode(ApiKeyRecord, {**row, "id": str(row["key_hash"])[:KEY_ID_CHARS]}) for row in rows]

        return await self._database.read(work)

    async def revoke_api_key(self, key: str) -> bool:
        """Make a key useless, by itself or by its id; return whether it was of use before."""
        start = key if KEY_ID.fullmatch(key) else key_hash(key)

        def work(change: Transaction) -> bool:
            found = [
                str(row["key_hash"])
                for row in change.tables.of("api_keys")
                if row["revoked_at"] is None and str(row["key_hash"]).startswith(start)
            ]
            for each in found:
                change.set("api_keys", each, {"revoked_at": moment(now())})
            return bool(found)

        return await self._database.write(work)

    async def add_asset(
        self, asset: AssetRecord, *, most: int | None = None, most_bytes: int | None = None, once: str = ""
    ) -> AssetRecord:
        """Insert an asset's row; its user and project are made with it; see `Store.add_asset`."""

        def work(change: Transaction) -> AssetRecord:
            ensure_project(change, asset.user_id, asset.project_id, asset.project_id)
            if once and (there := _alike(change.tables, asset.user_id, once)) is not None:
                return there
            if change.tables.get("assets", asset.id) is None:
                change.put("assets", encode(asset))
            count, size = _held_by(change.tables, asset.user_id)
            if most is not None and most_bytes is not None and (count > most or size > most_bytes):
                raise too_many_assets(most=most, most_bytes=most_bytes, size=size)
            return asset

        return await self._database.write(work)

    async def asset_alike(self, user_id: str, *, once: str) -> AssetRecord | None:
        """Read the asset whose id ends so, if there is one."""
        return await self._database.read(lambda tables: _alike(tables, user_id, once))

    async def assets(self, *, user_id: str, session_id: str) -> list[AssetRecord]:
        """Read the files that a session is made with, oldest first."""
        owner = (words(user_id), words(session_id))

        def work(tables: Tables) -> list[AssetRecord]:
            mine = [row for row in tables.of("assets") if (row["user_id"], row["session_id"]) == owner]
            mine = [row for row in mine if _is_file(row)]
            mine.sort(key=lambda row: (str(row["created_at"]), str(row["id"])))
            return [decode(AssetRecord, row) for row in mine]

        return await self._database.read(work)

    async def own_assets(self, user_id: str, *, limit: int = 50, before: str | None = None) -> list[AssetRecord]:
        """Read a user's files, newest first (ids sort by time)."""

        def work(tables: Tables) -> list[AssetRecord]:
            mine = [row for row in _assets(tables, user_id) if before is None or str(row["id"]) < before]
            mine = [row for row in mine if _is_file(row) and is_of_seen(tables, row)]
            mine.sort(key=lambda row: str(row["id"]), reverse=True)
            return [decode(AssetRecord, row) for row in mine[:limit]]

        return await self._database.read(work)

    async def loose_assets(self, before: datetime, *, limit: int = 100) -> list[AssetRecord]:
        """Read everybody's assets that no session has and that were uploaded before a time, oldest first."""
        until = moment(before)

        def work(tables: Tables) -> list[AssetRecord]:
            loose = [row for row in tables.of("assets") if row["session_id"] is None and str(row["created_at"]) < until]
            loose.sort(key=lambda row: (str(row["created_at"]), str(row["id"])))
            return [decode(AssetRecord, row) for row in loose[:limit]]

        return await self._database.read(work)

    async def remove_asset(self, asset_id: str, *, user_id: str) -> AssetRecord:
        """Remove the row of an asset that no session has, and return it."""

        def work(change: Transaction) -> AssetRecord:
            row = change.tables.get("assets", asset_id)
            if row is None or row["user_id"] != words(user_id) or not is_of_seen(change.tables, row):
                raise no_such("asset", asset_id)
            if row["session_id"] is not None:
                raise attached(asset_id, str(row["session_id"]))
            removed = decode(AssetRecord, row)
            change.remove("assets", asset_id)
            return removed

        return await self._database.write(work)

    async def asset_keys(self, user_id: str) -> set[str]:
        """Read the storage keys that a user's assets name."""
        return await self._database.read(lambda tables: {str(row["key"]) for row in _assets(tables, user_id)})

    async def get_asset(self, asset_id: str, *, user_id: str) -> AssetRecord:
        """Read an asset's row; NotFound as with sessions."""

        def work(tables: Tables) -> AssetRecord:
            row = tables.get("assets", asset_id)
            if row is None or row["user_id"] != words(user_id) or not is_of_seen(tables, row):
                raise no_such("asset", asset_id)
            return decode(AssetRecord, row)

        return await self._database.read(work)


def is_of_seen(tables: Tables, row: TableRow) -> bool:
    """Whether what a session may have is of none, or of one that its user sees."""
    if row["session_id"] is None:
        return True
    session = tables.get("sessions", str(row["session_id"]))
    return session is not None and is_seen(session)


def _alike(tables: Tables, user_id: str, once: str) -> AssetRecord | None:
    """Return the asset of a user's whose id ends so, if there is one."""
    alike = (row for row in _assets(tables, user_id) if str(row["id"]).endswith(once) and is_of_seen(tables, row))
    return next((decode(AssetRecord, row) for row in alike), None)


def _assets(tables: Tables, user_id: str) -> list[TableRow]:
    return [row for row in tables.of("assets") if row["user_id"] == words(user_id)]


def _held_by(tables: Tables, user_id: str) -> tuple[int, int]:
    """Count a user's files, and their bytes: once what takes and forks share.

    A picture that went with a note counts by its size alone, as what was said.
    """
    mine = _assets(tables, user_id)
    counted = {str(row["key"]) for row in mine if _is_file(row) or row["session_id"] is None}
    return len(counted), sum({str(row["key"]): cast("int", row["size_bytes"]) for row in mine}.values())


def _is_file(row: TableRow) -> bool:
    """Whether an asset is a file that a film is made with, as all are from before there was anything else."""
    return row.get("purpose", "file") == "file"


def give_assets(change: Transaction, asset_ids: Sequence[str], *, user_id: str, session_id: str) -> None:
    """Give uploaded assets to a session of the same user, all of them or none.

    Raises:
        NotFound: One of the assets is not there or another user's.
        Conflict: One of them belongs to another session: its files would change under it.
    """
    for asset_id in asset_ids:
        row = change.tables.get("assets", asset_id)
        if row is None or row["user_id"] != words(user_id):
            raise no_such("asset", asset_id)
        if row["session_id"] not in (None, words(session_id)):
            raise of_another(asset_id)
        change.set("assets", asset_id, {"session_id": words(session_id)})


def give_pictures(change: Transaction, asset_ids: Collection[str], *, user_id: str, session_id: str) -> None:
    """Give a session the pictures that notes to it name, as far as they are there, a user's, and no session's yet."""
    for asset_id in asset_ids:
        row = change.tables.get("assets", asset_id)
        if row is not None and row["user_id"] == words(user_id) and not _is_file(row) and row["session_id"] is None:
            change.set("assets", asset_id, {"session_id": words(session_id)})


def copy_assets(change: Transaction, copies: Mapping[str, str], state: NodeState) -> None:
    """Give a take new rows of files that no session has, or other takes of its group; their ids by those of the rows.

    Raises:
        NotFound: One of the assets is not there or another user's.
        Conflict: One of them belongs to a session that is no take of the group.
    """
    for asset_id, source in copies.items():
        row = change.tables.get("assets", source)
        if row is None or row["user_id"] != words(state.user_id) or not is_of_seen(change.tables, row):
            raise no_such("asset", source)
        if row["session_id"] is not None:
            held = decode(SessionRecord, change.tables.get("sessions", str(row["session_id"])) or {})
            if state.group is None or held.state.group != state.group:
                raise of_another(source)
        change.put("assets", {**row, "id": words(asset_id), "session_id": words(state.session_id)})


def count_stored(tables: Tables, user_id: str) -> int:
    """Count the bytes of a user's videos, uploaded files, and of what is held (`koda_ray.state.holdings`)."""
    _, files = _held_by(tables, user_id)
    jobs = (row for row in tables.of("jobs") if row["user_id"] == words(user_id))
    held = sum(cast("int", row["size_bytes"]) for row in tables.of("contents", user_id))
    return files + held + sum(cast("int", row.get("stored_bytes", 0)) for row in jobs)


def ensure_project(change: Transaction, user_id: str, project_id: str, name: str) -> None:
    """Insert the user's project, and the user, if they are not there."""
    ensure_user(change, user_id)
    if change.tables.get("projects", project_id, user_id) is None:
        made = {"user_id": words(user_id), "id": words(project_id), "name": words(name), "created_at": moment(now())}
        change.put("projects", dict(made))


def ensure_user(change: Transaction, user_id: str) -> None:
    """Insert the user's row if it is not there."""
    if change.tables.get("users", user_id) is None:
        change.put("users", {"id": words(user_id), "created_at": moment(now())})
