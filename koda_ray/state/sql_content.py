"""Whether a user works on anything, on the SQL database; see `content`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, Text, cast, or_, select

from koda_ray.state import schema
from koda_ray.state.content import after_removal, content_lock, in_removal
from koda_ray.state.database import Database
from koda_ray.state.records import OWED_STATUSES
from koda_ray.state.rows import record
from koda_ray.state.tiers import LockRecord
from koda_ray.types import now

__all__ = ["SqlContent", "may_begin", "take_turn"]

_J = schema.jobs.c
_L = schema.locks.c
_S = schema.sessions.c


class SqlContent:
    """The part of `SqlStore` that lets what is stored by its content be removed."""

    _database: Database

    async def take_content(self, user_id: str, *, holder: str, lease_until: datetime) -> LockRecord | None:
        """Take all that a user stored by its content, unless there is work that may need it."""
        session = select(_S.id).where(_S.user_id == user_id, _S.status != "closed")
        return await self._take(user_id, holder, lease_until, unless=(session, _staying(user_id)))

    async def take_bundle(
        self, user_id: str, bundle: str, *, holder: str, lease_until: datetime, finished: bool = True
    ) -> LockRecord | None:
        """Take a bundle, unless a job names it or a session is at work."""
        at_work = select(_S.id).where(_S.user_id == user_id, _S.status != "closed", _S.owes.is_not(None))
        naming = _staying(user_id).where(cast(_J.spec, Text).contains(f'"bundle":"{bundle}"', autoescape=True))
        if not finished:
            naming = naming.where(_J.status.in_(OWED_STATUSES))
        return await self._take(user_id, holder, lease_until, unless=(at_work, naming))

    async def use_content(self, user_id: str) -> None:
        """Wait until nothing is being removed."""
        await after_removal(lambda: self._database.write(lambda connection: may_begin(connection, user_id)))

    async def _take(
        self, user_id: str, holder: str, lease_until: datetime, *, unless: tuple[Select[Any], Select[Any]]
    ) -> LockRecord | None:
        insert = self._database.insert(schema.locks)
        values = {"name": content_lock(user_id), "holder": holder, "epoch": 1, "lease_until": lease_until}
        take = insert.values(values).on_conflict_do_update(
            index_elements=["name"],
            set_={"holder": insert.excluded.holder, "lease_until": lease_until, "epoch": _L.epoch + 1},
        )

        def work(connection: Connection) -> LockRecord | None:
            may_begin(connection, user_id)
            if any(connection.execute(each.limit(1)).first() for each in unless):
                return None
            return record(LockRecord, connection.execute(take.returning(schema.locks)).one())

        return await self._database.write(work)


def _staying(user_id: str) -> Select[Any]:
    """Select a user's jobs that are not of a closed session."""
    leaving = select(_S.id).where(_S.user_id == user_id, _S.status == "closed")
    return select(_J.id).where(_J.user_id == user_id, or_(_J.session_id.is_(None), _J.session_id.not_in(leaving)))


def take_turn(connection: Connection, user_id: str) -> None:
    """Have whoever else begins something for a user, whose row is there, wait for this transaction to end."""
    # without the key: else whoever inserts a row that names the user would wait as well, with locks of its own
    turn = select(schema.users.c.id).where(schema.users.c.id == user_id).with_for_update(key_share=True)
    connection.execute(turn)


def may_begin(connection: Connection, user_id: str) -> None:
    """Take a user's turn; raise Unavailable where what they stored by its content is being removed."""
    take_turn(connection, user_id)
    held = select(_L.name).where(_L.name == content_lock(user_id), _L.lease_until > now())
    if connection.execute(held).first() is not None:
        raise in_removal(user_id)
