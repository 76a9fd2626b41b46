"""What lies in storage by its content, counted on the SQL database; see `holdings`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import Connection, delete, insert, literal, select, update

from koda_ray.state import schema
from koda_ray.state.content import after_removal, in_removal
from koda_ray.state.database import Database
from koda_ray.state.holdings import THE_USER
from koda_ray.state.records import CheckpointRecord
from koda_ray.state.refusals import check_stored, no_such
from koda_ray.state.sql_accounts import count_stored, ensure_user
from koda_ray.state.sql_content import may_begin, take_turn

__all__ = ["SqlHoldings", "hold_stored", "leave_holdings", "share_holdings"]

_AT_ONCE = 500
_C = schema.contents.c
_H = schema.holdings.c
_P = schema.checkpoints.c
_S = schema.sessions.c
_U = schema.users.c


class SqlHoldings:
    """The part of `SqlStore` that counts what is stored by its content."""

    _database: Database

    async def hold(
        self,
        user_id: str,
        sizes: Mapping[str, int],
        *,
        holder: str = THE_USER,
        checkpoint: str | None = None,
        most_bytes: int | None = None,
    ) -> None:
        """Count objects, and keep them for a holder; see `HoldingStore.hold`."""
        held = update(schema.checkpoints).where(_P.session_id == holder, _P.id == checkpoint).values(held=True)

        def work(connection: Connection) -> None:
            ensure_user(self._database, connection, user_id)
            may_begin(connection, user_id)
            if holder != THE_USER:
                _check_open(connection, user_id, holder)
            if most_bytes is not None:
                check_stored(count_stored(connection, user_id), most_bytes)
            for part in _parts(sizes):
                _add(self._database, connection, user_id, {key: sizes[key] for key in part}, holder)
            if checkpoint is not None:
                connection.execute(held)

        await after_removal(lambda: self._database.write(work))

    async def hold_all(self, user_id: str, *, holder: str, checkpoint: str) -> None:
        """Keep all that a user has for a session; see `HoldingStore.hold_all`."""
        others = (_C.user_id == user_id, _C.going.is_(False), _C.key.not_in(select(_H.key).where(_H.holder == holder)))
        held = update(schema.checkpoints).where(_P.session_id == holder, _P.id == checkpoint).values(held=True)

        def work(connection: Connection) -> None:
            may_begin(connection, user_id)
            _check_open(connection, user_id, holder)
            connection.execute(update(schema.contents).where(*others).values(holders=_C.holders + 1))
            theirs = select(literal(holder), _C.key, _C.user_id).where(*others)
            connection.execute(insert(schema.holdings).from_select(["holder", "key", "user_id"], theirs))
            connection.execute(held)

        await after_removal(lambda: self._database.write(work))

    async def let_go(self, user_id: str, *, holder: str) -> list[str]:
        """Hold nothing any more; see `HoldingStore.let_go`."""
        open_ = select(_S.id).where(_S.user_id == user_id, _S.status != "closed")
        older = select(_P.id).where(_P.user_id == user_id, schema.IS_UNHELD, _P.session_id.in_(open_)).limit(1)
        mark = update(schema.contents).where(_C.user_id == user_id, schema.IS_UNNEEDED).values(going=True)

        def work(connection: Connection) -> list[str]:
            take_turn(connection, user_id)
            leave_holdings(connection, user_id, holder)
            if connection.execute(older).first() is not None:
                return []
            return list(connection.execute(mark.returning(_C.key)).scalars())

        return await self._database.write(work)

    async def forget(self, user_id: str, keys: Collection[str] | None) -> None:
        """Count objects no more; see `HoldingStore.forget`."""

        def work(connection: Connection) -> None:
            take_turn(connection, user_id)
            if keys is None:
                connection.execute(delete(schema.contents).where(_C.user_id == user_id))
                connection.execute(delete(schema.holdings).where(_H.user_id == user_id))
                connection.execute(update(schema.users).where(_U.id == user_id).values(held_bytes=0))
                return
            for part in _parts(keys):
                gone = delete(schema.contents).where(_C.user_id == user_id, _C.key.in_(part))
                freed = sum(connection.execute(gone.returning(_C.size_bytes)).scalars())
                connection.execute(delete(schema.holdings).where(_H.user_id == user_id, _H.key.in_(part)))
                _count(connection, user_id, -freed)

        await self._database.write(work)

    async def stored_bytes(self, user_id: str) -> int:
        """Count the bytes of a user's videos, uploaded files, and of all that is held."""
        return await self._database.read(lambda connection: count_stored(connection, user_id))

    async def counted(self, user_id: str, *, below: str, after: str = "", limit: int = 500) -> list[str]:
        """Read the keys below a prefix that are counted; see `HoldingStore.counted`."""
        query = select(_C.key).where(_C.user_id == user_id, _C.key.startswith(f"{below}/", autoescape=True))
        query = query.where(_C.key > after).order_by(_C.key).limit(limit)
        return await self._database.read(lambda connection: list(connection.execute(query).scalars()))

    async def unheld(self, *, after: str = "", limit: int = 100) -> list[CheckpointRecord]:
        """Read checkpoints that hold nothing yet; see `HoldingStore.unheld`."""
        query = select(schema.checkpoints).join(schema.sessions, _S.id == _P.session_id)
        query = query.where(schema.IS_UNHELD, _S.status != "closed", _P.id > after).order_by(_P.id).limit(limit)
        return await self._database.records(CheckpointRecord, query)


def hold_stored(database: Database, connection: Connection, user_id: str, sizes: Mapping[str, int]) -> None:
    """Count objects that are stored already, for the user, whose turn this transaction has taken."""
    for part in _parts(sizes):
        _add(database, connection, user_id, {key: sizes[key] for key in part}, THE_USER)


def leave_holdings(connection: Connection, user_id: str, holder: str) -> None:
    """Have a holder hold nothing; what nobody holds then is still there, and still counts."""
    mine = select(_H.key).where(_H.holder == holder, _H.user_id == user_id)
    less = update(schema.contents).where(_C.user_id == user_id, _C.key.in_(mine)).values(holders=_C.holders - 1)
    connection.execute(less)
    connection.execute(delete(schema.holdings).where(_H.holder == holder, _H.user_id == user_id))


def share_holdings(connection: Connection, user_id: str, holder: str, *, of: str) -> None:
    """Have a session that was made of another one hold what that one does."""
    theirs = select(literal(holder), _H.key, _H.user_id).where(_H.holder == of, _H.user_id == user_id)
    connection.execute(insert(schema.holdings).from_select(["holder", "key", "user_id"], theirs))
    shared = select(_H.key).where(_H.holder == holder)
    more = update(schema.contents).where(_C.user_id == user_id, _C.key.in_(shared)).values(holders=_C.holders + 1)
    connection.execute(more)


def _check_open(connection: Connection, user_id: str, session_id: str) -> None:
    there = select(_S.id).where(_S.id == session_id, _S.user_id == user_id, _S.status != "closed")
    if connection.execute(there).first() is None:
        raise no_such("session", session_id)


def _add(database: Database, connection: Connection, user_id: str, sizes: Mapping[str, int], holder: str) -> None:
    rows = connection.execute(select(_C.key, _C.going).where(_C.user_id == user_id, _C.key.in_(sizes))).all()
    if any(row.going for row in rows):
        raise in_removal(user_id)
    known = {row.key for row in rows}
    held = set(connection.execute(select(_H.key).where(_H.holder == holder, _H.key.in_(sizes))).scalars())
    if new := [key for key in sizes if key not in held]:
        connection.execute(insert(schema.holdings), [{"holder": holder, "key": key, "user_id": user_id} for key in new])
    if more := [key for key in new if key in known]:
        shared = update(schema.contents).where(_C.user_id == user_id, _C.key.in_(more))
        connection.execute(shared.values(holders=_C.holders + 1))
    if made := [key for key in new if key not in known]:
        values = [{"user_id": user_id, "key": key, "size_bytes": sizes[key]} for key in made]
        connection.execute(database.insert(schema.contents), values)
        _count(connection, user_id, sum(sizes[key] for key in made))


def _count(connection: Connection, user_id: str, more_bytes: int) -> None:
    if more_bytes:
        counted = update(schema.users).where(_U.id == user_id)
        connection.execute(counted.values(held_bytes=_U.held_bytes + more_bytes))


def _parts(keys: Collection[str]) -> Iterator[Sequence[str]]:
    """Share keys out so that no statement has more of them than a database takes, in an order that all have."""
    ordered = sorted(keys)
    return (ordered[start : start + _AT_ONCE] for start in range(0, len(ordered), _AT_ONCE))
