"""Whether a user works on anything, on the SQL database; see `content`."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, or_, select

from koda_ray.state import schema
from koda_ray.state.content import content_lock, in_removal
from koda_ray.state.database import Database
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
        name = content_lock(user_id)
        session = select(_S.id).where(_S.user_id == user_id, _S.status != "closed").limit(1)
        leaving = select(_S.id).where(_S.user_id == user_id, _S.status == "closed")
        alone = or_(_J.session_id.is_(None), _J.session_id.not_in(leaving))
        job = select(_J.id).where(_J.user_id == user_id, alone).limit(1)
        insert = self._database.insert(schema.locks)
        take = insert.values(name=name, holder=holder, epoch=1, lease_until=lease_until).on_conflict_do_update(
            index_elements=["name"],
            set_={"holder": insert.excluded.holder, "lease_until": lease_until, "epoch": _L.epoch + 1},
        )

        def work(connection: Connection) -> LockRecord | None:
            may_begin(connection, user_id)
            if connection.execute(session).first() or connection.execute(job).first():
                return None
            return record(LockRecord, connection.execute(take.returning(schema.locks)).one())

        return await self._database.write(work)


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
