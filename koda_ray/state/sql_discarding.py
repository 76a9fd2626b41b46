"""Discarded sessions, and sessions by their last change, on the SQL database; see `discarding`."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, case, or_, select, update

from koda_ray.state import schema
from koda_ray.state.database import Database
from koda_ray.state.discarding import quota_on_return
from koda_ray.state.notify import Notifier
from koda_ray.state.records import SessionQuota, SessionRecord
from koda_ray.state.refusals import check_sessions, no_such
from koda_ray.state.rows import session
from koda_ray.state.sql_content import take_turn
from koda_ray.state.sql_inbox import quota_used
from koda_ray.types import now

__all__ = ["SqlDiscarding", "labelled"]

_S = schema.sessions.c


class SqlDiscarding:
    """The part of `SqlStore` that deletes what can be had back."""

    _database: Database
    _notifier: Notifier

    async def discard_session(self, session_id: str, *, user_id: str, delete_at: datetime) -> SessionRecord:
        """Have a session deleted at a time; see `DiscardingStore.discard_session`."""
        earlier = case((_S.delete_at < delete_at, _S.delete_at), else_=delete_at)
        statement = update(schema.sessions).where(*_mine(session_id, user_id)).values(delete_at=earlier)
        row = await self._database.write(
            lambda connection: connection.execute(statement.returning(schema.sessions)).one_or_none(),
            lambda _: self._notifier.notify(session_id),
        )
        if row is None:
            raise no_such("session", session_id)
        return session(row)

    async def restore_session(
        self, session_id: str, *, user_id: str, quota: SessionQuota | None = None
    ) -> SessionRecord:
        """Have a session back; see `DiscardingStore.restore_session`."""
        mine = _mine(session_id, user_id)
        back = update(schema.sessions).where(*mine, _S.delete_at.is_not(None)).values(delete_at=None)

        def work(connection: Connection) -> SessionRecord:
            take_turn(connection, user_id)  # before the row, as whoever begins or wakes another does
            row = connection.execute(back.returning(schema.sessions)).one_or_none()
            if row is None:
                there = connection.execute(select(schema.sessions).where(*mine)).one_or_none()
                if there is None:
                    raise no_such("session", session_id)
                return session(there)
            found = session(row)
            if quota is not None:
                waits = select(schema.inbox.c.key).where(schema.inbox.c.session_id == session_id).limit(1)
                wanted = quota_on_return(found, quota, asked=connection.execute(waits).first() is not None)
                check_sessions(wanted, quota_used(connection, user_id, wanted))
            return found

        return await self._database.write(work)

    async def discarded_held(self, at: datetime, *, limit: int = 1_000) -> list[str]:
        """Find discarded sessions that some process still holds; see `DiscardingStore.discarded_held`."""
        held = (_S.delete_at.is_not(None), _S.status != "closed", _S.lease_until > at)
        query = select(_S.id).where(*held).order_by(_S.delete_at, _S.id).limit(limit)
        return await self._database.read(lambda connection: list(connection.execute(query).scalars()))

    async def close_discarded(self, at: datetime, *, limit: int = 100) -> list[SessionRecord]:
        """Begin to delete discarded sessions whose time has come; see `DiscardingStore.close_discarded`."""
        due = (_S.delete_at <= at, _S.status != "closed")
        first = select(_S.id).where(*due).order_by(_S.delete_at, _S.id).limit(limit)
        close = (
            update(schema.sessions)
            .where(_S.id.in_(first), *due)  # once more: one that is had back meanwhile is not due
            .values(epoch=_S.epoch + 1, status="closed", lease_until=None, updated_at=now())
            .returning(schema.sessions)
        )

        def work(connection: Connection) -> list[SessionRecord]:
            closed = [session(row) for row in connection.execute(close)]
            return sorted(closed, key=lambda row: (row.delete_at or at, row.id))

        return await self._database.write(work)

    async def changed_sessions(
        self,
        user_id: str,
        *,
        limit: int = 50,
        before: tuple[datetime, str] | None = None,
        pinned: bool | None = None,
        group: str | None = None,
    ) -> list[SessionRecord]:
        """Read a user's sessions, last changed first."""
        chosen = select(_S.id).where(_S.user_id == user_id, schema.IS_SEEN, *labelled(pinned, group))
        if before is not None:
            at, session_id = before
            chosen = chosen.where(or_(_S.updated_at < at, and_(_S.updated_at == at, _S.id < session_id)))
        order = (_S.updated_at.desc(), _S.id.desc())
        # by ids first: what is sorted is not to carry all those states
        query = select(schema.sessions).where(_S.id.in_(chosen.order_by(*order).limit(limit))).order_by(*order)
        return await self._database.read(lambda connection: [session(row) for row in connection.execute(query)])


def labelled(pinned: bool | None, group: str | None) -> list[ColumnElement[bool]]:
    """Say which sessions are meant by how they stand in lists; all where nothing is said."""
    asked: list[ColumnElement[bool]] = [] if pinned is None else [_S.pinned.is_(pinned)]
    return asked if group is None else [*asked, _S.take_group == group]


def _mine(session_id: str, user_id: str) -> tuple[ColumnElement[bool], ...]:
    return _S.id == session_id, _S.user_id == user_id, _S.status != "closed"
