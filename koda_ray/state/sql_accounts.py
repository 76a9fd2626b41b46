"""Users, their API keys, projects and uploaded files on the SQL database."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, case, delete, func, insert, or_, select, update

from koda_ray.state import schema
from koda_ray.state.database import Database
from koda_ray.state.records import ApiKeyRecord, AssetRecord, ProjectRecord
from koda_ray.state.refusals import attached, no_such, of_another, too_many_assets
from koda_ray.state.rows import KEY_ID, KEY_ID_CHARS, columns, key_hash, record
from koda_ray.state.sql_content import take_turn
from koda_ray.types import NodeState, now

__all__ = [
    "SqlAccounts",
    "copy_assets",
    "count_stored",
    "ensure_project",
    "ensure_user",
    "give_assets",
    "give_pictures",
]

_A = schema.assets.c
_K = schema.api_keys.c
_P = schema.projects.c
_A_KEY = select(_K.user_id).where(_K.revoked_at.is_(None)).limit(1)
_EVER_A_KEY = select(_K.user_id).limit(1)  # asked with each request that has no key
# asked with each request that has one; made once, which takes longer than running it
_WHOSE = select(_K.user_id).where(_K.key_hash == bindparam("hashed"), _K.revoked_at.is_(None))
_WHOSE_ID = select(_K.user_id).where(_K.key_hash.startswith(bindparam("begins")), _K.revoked_at.is_(None))


class SqlAccounts:
    """The part of `SqlStore` that knows who owns what."""

    _database: Database

    async def ensure_user(self, user_id: str) -> None:
        """Make the user's row if it is not there."""
        await self._database.write(lambda connection: ensure_user(self._database, connection, user_id))

    async def ensure_project(self, user_id: str, project_id: str, name: str) -> None:
        """Make the rows of the user and of their project if they are not there."""
        await self._database.write(
            lambda connection: ensure_project(self._database, connection, user_id, project_id, name)
        )

    async def projects(self, user_id: str, *, limit: int = 50, after: str | None = None) -> list[ProjectRecord]:
        """Read a page of a user's projects by their ids."""
        query = select(schema.projects).where(_P.user_id == user_id)
        if after is not None:
            query = query.where(_P.id > after)
        return await self._database.records(ProjectRecord, query.order_by(_P.id).limit(limit))

    async def create_api_key(self, user_id: str, *, name: str = "") -> str:
        """Make a key for a user.

        Returns:
            The key, which is not stored and cannot be shown again.
        """
        key = f"koda_{secrets.token_urlsafe(32)}"

        def work(connection: Connection) -> None:
            ensure_user(self._database, connection, user_id)
            values = {"key_hash": key_hash(key), "user_id": user_id, "name": name, "created_at": now()}
            connection.execute(self._database.insert(schema.api_keys).values(values))

        await self._database.write(work)
        return key

    async def user_for_key(self, key: str) -> str | None:
        """Return whose key it is; None for one that is unknown or revoked."""
        asked = {"hashed": key_hash(key)}
        return await self._database.read(lambda connection: connection.execute(_WHOSE, asked).scalar_one_or_none())

    async def user_for_key_id(self, key_id: str) -> str | None:
        """Return whose key it is that an id names; None for one that is unknown or revoked."""
        if KEY_ID.fullmatch(key_id) is None:
            return None
        asked = {"begins": key_id}
        return await self._database.read(lambda connection: connection.execute(_WHOSE_ID, asked).scalar_one_or_none())

    async def has_api_keys(self, *, revoked: bool = False) -> bool:
        """Whether any key is of use; with ``revoked``, whether there ever was one."""
        query = _EVER_A_KEY if revoked else _A_KEY
        return await self._database.read(lambda connection: connection.execute(query).first()) is not None

    async def api_keys(self) -> list[ApiKeyRecord]:
        """Read what is known of all keys, oldest first."""
        query = select(schema.api_keys).order_by(_K.created_at, _K.key_hash)

        def work(connection: Connection) -> list[ApiKeyRecord]:
            return [
                ApiKeyRecord(
                    id=row.key_hash[:KEY_ID_CHARS],
                    user_id=row.user_id,
                    name=row.name,
                    created_at=row.created_at,
                    revoked_at=row.revoked_at,
                )
                for row in connection.execute(query)
            ]

        return await self._database.read(work)

    async def revoke_api_key(self, key: str) -> bool:
        """Make a key useless, by itself or by its id; return whether it was of use before."""
        which = _K.key_hash.startswith(key) if KEY_ID.fullmatch(key) else _K.key_hash == key_hash(key)
        statement = update(schema.api_keys).where(which, _K.revoked_at.is_(None))
        statement = statement.values(revoked_at=now())
        return await self._database.write(lambda connection: connection.execute(statement).rowcount) > 0

    async def add_asset(
        self, asset: AssetRecord, *, most: int | None = None, most_bytes: int | None = None, once: str = ""
    ) -> AssetRecord:
        """Insert an asset's row; its user and project are made with it; see `Store.add_asset`."""
        insert = self._database.insert(schema.assets).values(columns(asset)).on_conflict_do_nothing()
        alike = _alike(asset.user_id, once)

        def work(connection: Connection) -> AssetRecord:
            ensure_project(self._database, connection, asset.user_id, asset.project_id, asset.project_id)
            take_turn(connection, asset.user_id)
            if once and (there := connection.execute(alike).first()) is not None:
                return record(AssetRecord, there)
            connection.execute(insert)
            if most is not None and most_bytes is not None:
                count, size = _held_by(connection, asset.user_id)
                if count > most or size > most_bytes:
                    raise too_many_assets(most=most, most_bytes=most_bytes, size=size)
            return asset

        return await self._database.write(work)

    async def asset_alike(self, user_id: str, *, once: str) -> AssetRecord | None:
        """Read the asset whose id ends so, if there is one."""
        return next(iter(await self._database.records(AssetRecord, _alike(user_id, once))), None)

    async def assets(self, *, user_id: str, session_id: str) -> list[AssetRecord]:
        """Read the files that a session is made with, oldest first."""
        mine = (_A.user_id == user_id, _A.session_id == session_id, _A.purpose == "file")
        query = select(schema.assets).where(*mine)
        return await self._database.records(AssetRecord, query.order_by(_A.created_at, _A.id))

    async def own_assets(self, user_id: str, *, limit: int = 50, before: str | None = None) -> list[AssetRecord]:
        """Read a user's files, newest first (ids sort by time)."""
        query = select(schema.assets).where(_A.user_id == user_id, _A.purpose == "file", _is_seen())
        if before is not None:
            query = query.where(_A.id < before)
        return await self._database.records(AssetRecord, query.order_by(_A.id.desc()).limit(limit))

    async def loose_assets(self, before: datetime, *, limit: int = 100) -> list[AssetRecord]:
        """Read everybody's assets that no session has and that were uploaded before a time, oldest first."""
        query = select(schema.assets).where(_A.session_id.is_(None), _A.created_at < before)
        return await self._database.records(AssetRecord, query.order_by(_A.created_at, _A.id).limit(limit))

    async def remove_asset(self, asset_id: str, *, user_id: str) -> AssetRecord:
        """Remove the row of an asset that no session has, and return it."""
        mine = (_A.id == asset_id, _A.user_id == user_id)
        loose = delete(schema.assets).where(*mine, _A.session_id.is_(None)).returning(schema.assets)

        def work(connection: Connection) -> AssetRecord:
            row = connection.execute(loose).one_or_none()
            if row is not None:
                return record(AssetRecord, row)
            session_id = connection.execute(select(_A.session_id).where(*mine, _is_seen())).scalar_one_or_none()
            raise no_such("asset", asset_id) if session_id is None else attached(asset_id, session_id)

        return await self._database.write(work)

    async def asset_keys(self, user_id: str) -> set[str]:
        """Read the storage keys that a user's assets name."""
        query = select(_A.key).where(_A.user_id == user_id)
        return await self._database.read(lambda connection: set(connection.execute(query).scalars()))

    async def get_asset(self, asset_id: str, *, user_id: str) -> AssetRecord:
        """Read an asset's row; NotFound as with sessions."""
        query = select(schema.assets).where(_A.id == asset_id, _A.user_id == user_id, _is_seen())
        found = await self._database.records(AssetRecord, query)
        if not found:
            raise no_such("asset", asset_id)
        return found[0]


def _alike(user_id: str, once: str) -> Select[Any]:
    """Say which of a user's assets has an id that ends so."""
    ends_so = _A.id.endswith(once, autoescape=True)
    return select(schema.assets).where(_A.user_id == user_id, ends_so, _is_seen())


def _held_by(connection: Connection, user_id: str) -> tuple[int, int]:
    """Count a user's files, and their bytes: once what takes and forks share.

    A picture that went with a note counts by its size alone, as what was said.
    """
    counts = case((or_(_A.purpose == "file", _A.session_id.is_(None)), 1), else_=0)
    each = select(func.max(counts).label("counts"), func.max(_A.size_bytes).label("size"))
    stored = each.where(_A.user_id == user_id).group_by(_A.key).subquery().c
    both = select(func.coalesce(func.sum(stored.counts), 0), func.coalesce(func.sum(stored.size), 0))
    row = connection.execute(both).one()
    return int(row[0]), int(row[1])


def _is_seen() -> ColumnElement[bool]:
    """Say of which assets their user knows: not of those of a session that was deleted."""
    seen = select(schema.sessions.c.id).where(schema.sessions.c.id == _A.session_id, schema.IS_SEEN)
    return or_(_A.session_id.is_(None), seen.exists())


def give_assets(connection: Connection, asset_ids: Sequence[str], *, user_id: str, session_id: str) -> None:
    """Give uploaded assets to a session of the same user, all of them or none.

    Raises:
        NotFound: One of the assets is not there or another user's.
        Conflict: One of them belongs to another session: its files would change under it.
    """
    query = select(schema.assets).where(_A.id.in_(asset_ids), _A.user_id == user_id)
    found = {row.id: record(AssetRecord, row) for row in connection.execute(query)}
    for asset_id in asset_ids:
        asset = found.get(asset_id)
        if asset is None:
            raise no_such("asset", asset_id)
        if asset.session_id not in (None, session_id):
            raise of_another(asset_id)
    connection.execute(update(schema.assets).where(_A.id.in_(asset_ids)).values(session_id=session_id))


def give_pictures(connection: Connection, asset_ids: Collection[str], *, user_id: str, session_id: str) -> None:
    """Give a session the pictures that notes to it name, as far as they are there, a user's, and no session's yet."""
    loose = (_A.user_id == user_id, _A.purpose == "note", _A.session_id.is_(None))
    connection.execute(update(schema.assets).where(_A.id.in_(asset_ids), *loose).values(session_id=session_id))


def copy_assets(connection: Connection, copies: Mapping[str, str], state: NodeState) -> None:
    """Give a take new rows of files that no session has, or other takes of its group; their ids by those of the rows.

    Raises:
        NotFound: One of the assets is not there or another user's.
        Conflict: One of them belongs to a session that is no take of the group.
    """
    sessions = schema.sessions.c
    query = select(schema.assets, sessions.take_group).outerjoin(schema.sessions, sessions.id == _A.session_id)
    is_seen = or_(_A.session_id.is_(None), schema.IS_SEEN)
    mine = query.where(_A.id.in_(copies.values()), _A.user_id == state.user_id, is_seen)
    found = {row.id: row for row in connection.execute(mine)}
    rows: list[dict[str, object]] = []
    for asset_id, source in copies.items():
        row = found.get(source)
        if row is None:
            raise no_such("asset", source)
        asset = record(AssetRecord, row)
        if asset.session_id is not None and (state.group is None or row.take_group != state.group):
            raise of_another(source)
        rows.append(columns(replace(asset, id=asset_id, session_id=state.session_id)))
    connection.execute(insert(schema.assets), rows)


def ensure_user(database: Database, connection: Connection, user_id: str) -> None:
    """Insert the user's row if it is not there."""
    values = {"id": user_id, "created_at": now()}
    connection.execute(database.insert(schema.users).values(values).on_conflict_do_nothing())


def count_stored(connection: Connection, user_id: str) -> int:
    """Count the bytes of a user's videos, uploaded files, and of what is held (`koda_ray.state.holdings`)."""
    _, files = _held_by(connection, user_id)
    videos = select(func.coalesce(func.sum(schema.jobs.c.stored_bytes), 0)).where(schema.jobs.c.user_id == user_id)
    held = select(func.coalesce(func.sum(schema.users.c.held_bytes), 0)).where(schema.users.c.id == user_id)
    return files + sum(int(connection.execute(query).scalar_one()) for query in (videos, held))


def ensure_project(database: Database, connection: Connection, user_id: str, project_id: str, name: str) -> None:
    """Insert the user's project, and the user, if they are not there."""
    ensure_user(database, connection, user_id)
    values = {"user_id": user_id, "id": project_id, "name": name, "created_at": now()}
    connection.execute(database.insert(schema.projects).values(values).on_conflict_do_nothing())
