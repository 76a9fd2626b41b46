"""Commands that wait, and the names of sessions' processes, on the SQL database; see `inbox`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import JsonValue
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Connection,
    Float,
    Select,
    String,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    insert,
    literal_column,
    not_,
    null,
    or_,
    select,
    union_all,
    update,
)

from koda_ray.state import schema
from koda_ray.state.database import Database
from koda_ray.state.inbox import (
    Judge,
    check_waiting,
    final_jobs,
    final_video_s,
    is_awake,
    new_video_s,
    owed_after,
    superseded,
)
from koda_ray.state.notify import Notifier
from koda_ray.state.records import OWED_STATUSES, CommandRecord, OwedWork, RenderQuota, SessionQuota, WholeSession
from koda_ray.state.refusals import check_renders, no_such, replaced, too_many_awake, used_for_another
from koda_ray.state.rows import body_hash, columns, record, session
from koda_ray.state.sql_accounts import count_stored, give_pictures
from koda_ray.state.sql_content import take_turn
from koda_ray.types import now

__all__ = [
    "WHOLE_QUOTA",
    "SqlInbox",
    "count_asked",
    "count_awake",
    "queued_video_s",
    "quota_used",
    "sessions_owing",
    "take_out",
    "why_not_activated",
]

_S = schema.sessions.c
_I = schema.inbox.c
_J = schema.jobs.c
_PREVIEW_S = r'"preview":\{(?:"[a-zA-Z]+":"(?:[^"\\]|\\.)*",)*"duration":([0-9.eE+-]+)'
"""Where a state has its preview's length: inside of a string its quotes would have backslashes."""
# what is asked again and again is made once: making a statement takes longer than running it
_SESSION: BindParameter[str] = bindparam("of_session")
_WAITING = select(schema.inbox).where(_I.session_id == _SESSION).order_by(_I.number)
_IS_ASKED = exists().where(_I.session_id == _SESSION)
_WHOLE = select(schema.sessions, _IS_ASKED.label("is_asked")).where(
    _S.id == _SESSION, _S.user_id == bindparam("of_user"), schema.IS_SEEN
)
_JOBS_THERE = select(_J.id).where(_J.user_id == bindparam("of_user"), _J.id.in_(bindparam("made", expanding=True)))
_RENEWED = (
    update(schema.sessions)
    .where(_S.id == _SESSION, _S.epoch == bindparam("held"))
    .values(lease_until=bindparam("until"))
    .returning(_IS_ASKED)
)
_EPOCH = select(_S.epoch).where(_S.id == _SESSION)
WHOLE_QUOTA = SessionQuota(sessions=0, awake=0, stored_bytes=0)
"""With it, everything is counted."""


class SqlInbox:
    """The part of `SqlStore` that keeps what waits for sessions."""

    _database: Database
    _notifier: Notifier

    async def receive(
        self,
        command: CommandRecord,
        judge: Judge,
        *,
        pictures: Collection[str] = (),
        most_awake: int | None = None,
        most_video_s: float | None = None,
    ) -> tuple[CommandRecord, bool]:
        """Record a command under its session's lock; see `InboxStore.receive`."""
        digest = body_hash(command.body)

        def work(connection: Connection) -> tuple[CommandRecord, bool]:
            if most_awake is not None or most_video_s is not None:
                take_turn(connection, command.user_id)  # before the row, as whoever begins or wakes another does
            mine = (_S.id == command.session_id, _S.user_id == command.user_id, schema.IS_SEEN)
            touched = update(schema.sessions).where(*mine).values(rev=_S.rev, last_activity=now())
            row = connection.execute(touched.returning(schema.sessions)).one_or_none()
            if row is None:
                raise no_such("session", command.session_id)
            for table, waits in ((schema.commands, False), (schema.inbox, True)):
                same = select(table).where(table.c.session_id == command.session_id, table.c.key == command.key)
                there = connection.execute(same).one_or_none()
                if there is not None:
                    if (there.name, there.body_hash) != (command.name, digest):
                        raise used_for_another("command", command.key)
                    return record(CommandRecord, there), waits
            waiting = _waiting(connection, command.session_id)
            check_waiting(command, waiting)
            found = session(row)
            made = replace(command, result=judge(found, waiting))
            video_s = new_video_s(found, waiting, made.result)
            if most_video_s is not None and video_s > 0:
                there_s = queued_video_s(connection, command.user_id, without=found.id)
                check_renders(RenderQuota(video_s=most_video_s), RenderQuota(video_s=there_s + video_s))
            last = select(func.coalesce(func.max(_I.number), 0)).where(_I.session_id == command.session_id)
            number = connection.execute(last).scalar_one() + 1
            connection.execute(insert(schema.inbox).values(columns(made) | {"number": number, "body_hash": digest}))
            if pictures:
                give_pictures(connection, pictures, user_id=command.user_id, session_id=command.session_id)
            # what waits keeps the session's place from here on: kept for a while, it would not be seen to wait
            kept = (_S.id == command.session_id, _S.host.is_(None))
            connection.execute(update(schema.sessions).where(*kept).values(lease_until=None))
            if command.trace is not None:
                mine_only = update(schema.sessions).where(_S.id == command.session_id)
                connection.execute(mine_only.values(trace=command.trace))
            wakes = not waiting and not is_awake(found.owes, found.lease_until)
            if most_awake is not None and wakes and count_awake(connection, command.user_id) > most_awake:
                raise too_many_awake(most_awake)
            return made, True

        return await self._database.write(work)

    async def inbox(self, session_id: str) -> list[CommandRecord]:
        """Read the commands that wait, in the order in which they were recorded."""
        return await self._database.read(lambda connection: _waiting(connection, session_id))

    async def whole_session(self, session_id: str, *, user_id: str) -> WholeSession:
        """Read a user's session with what waits for it and which of its finals are gone: mostly one statement."""

        def work(connection: Connection) -> WholeSession:
            row = connection.execute(_WHOLE, {"of_session": session_id, "of_user": user_id}).one_or_none()
            if row is None:
                raise no_such("session", session_id)
            found = session(row)
            waiting = _waiting(connection, session_id) if row.is_asked else ()
            lost = final_jobs(found.state)
            if lost:
                made = {"of_user": user_id, "made": list(lost)}
                lost.difference_update(connection.execute(_JOBS_THERE, made).scalars())
            return WholeSession(row=found, waiting=tuple(waiting), lost=frozenset(lost))

        return await self._database.read(work)

    async def renew(self, session_id: str, epoch: int, *, lease_until: datetime) -> bool:
        """Hold a session until then, under the fence; says whether a command waits for it."""
        held = {"of_session": session_id, "held": epoch, "until": lease_until}

        def work(connection: Connection) -> bool:
            row = connection.execute(_RENEWED, held).one_or_none()
            if row is None:
                current = connection.execute(_EPOCH, {"of_session": session_id}).scalar_one_or_none()
                raise replaced("session", session_id, epoch=epoch, current=current)
            return bool(row[0])

        return await self._database.write(work, synced=False)

    async def supersede(self, session_id: str, activation: int, *, at: datetime) -> bool:
        """Have a session's process sought under the next name; see `InboxStore.supersede`."""
        given_up = (_S.host.is_not(None), _S.lease_until < at, _S.status != "closed")
        statement = (
            update(schema.sessions)
            .where(_S.id == session_id, _S.activation == activation, *given_up)
            .values(activation=_S.activation + 1, epoch=_S.epoch + 1, host=None, lease_until=None)
        )
        return await self._database.write(lambda connection: connection.execute(statement).rowcount == 1)


def count_awake(connection: Connection, user_id: str) -> int:
    """Count a user's sessions that are held, also discarded ones, or that owe work or are asked something."""
    asked = select(_I.session_id).where(_I.user_id == user_id)
    wanted = and_(schema.IS_SEEN, or_(_S.owes.is_not(None), _S.id.in_(asked)))
    awake = or_(wanted, and_(_S.status != "closed", _S.lease_until > now()))
    mine = select(func.count()).select_from(schema.sessions).where(_S.user_id == user_id, awake)
    return connection.execute(mine).scalar_one()


def queued_video_s(connection: Connection, user_id: str, *, without: str | None = None) -> float:
    """Add up a user's video that waits or is under way: jobs, and finals that sessions owe or are asked for.

    It is one statement, since a final goes from what is asked to what is owed and then to a job: two would see one
    twice, or not at all, where others commit between them.

    Args:
        connection: Where.
        user_id: Whose.
        without: A session whose final video is not counted.
    """
    others_s, finals = 0.0, dict[str, float]()
    owing: dict[str, float] = {}
    asked: list[tuple[str, JsonValue, float | None]] = []
    for part, session_id, seconds, owes, result in connection.execute(_queued_video(connection, user_id)):
        if part == "others":
            others_s = float(seconds)
        elif part == "final":
            finals[session_id] = finals.get(session_id, 0.0) + seconds
        elif part == "owed":
            owing[session_id] = final_video_s(seconds)
        else:
            asked.append((session_id, owed_after(owes, result), seconds))
    for session_id, owes, seconds in asked:
        owing.pop(session_id, None)
        if owes == "render_final":
            owing[session_id] = final_video_s(seconds)
    counted = owing | finals  # what is begun counts as its job says
    return others_s + sum(seconds for session_id, seconds in counted.items() if session_id != without)


def _queued_video(connection: Connection, user_id: str) -> CompoundSelect[Any, Any, Any, Any, Any]:
    """Select the parts of a user's video that waits or is under way, each with its name.

    ``asked`` is what the last command that waits for a session leads to, ``owed`` a final that a row owes, ``final``
    one that is begun, and ``others`` what all other jobs come to.
    """
    preview_s = _preview_s(connection)
    later = schema.inbox.alias()
    is_last = ~exists().where(later.c.session_id == _I.session_id, later.c.number > _I.number)
    seen = (_S.user_id == user_id, schema.IS_SEEN)
    asked = select(literal_column("'asked'", String), _S.id, preview_s, _S.owes, _I.result)
    asked = asked.join(schema.inbox, _I.session_id == _S.id).where(*seen, is_last)
    owed = select(literal_column("'owed'", String), _S.id, preview_s, null(), null()).where(
        *seen, _S.owes == "render_final"
    )
    begun = (_J.user_id == user_id, _J.status.in_(OWED_STATUSES))
    is_final = and_(_J.kind == "final", _J.session_id.is_not(None))
    final = select(literal_column("'final'", String), _J.session_id, _J.video_s, null(), null()).where(*begun, is_final)
    others_s = func.coalesce(func.sum(_J.video_s), 0.0)
    others = select(literal_column("'others'", String), null(), others_s, null(), null()).where(*begun, not_(is_final))
    return union_all(asked, owed, final, others)


def _preview_s(connection: Connection) -> ColumnElement[float]:
    """Find how long a session's preview is in its state, which is read no further; null where it has none."""
    if connection.dialect.name == "sqlite":
        return cast(func.json_extract(_S.state, "$.preview.duration"), Float)
    return cast(func.substring(_S.state, _PREVIEW_S), Float)  # Postgres reads no JSON that has a NUL anywhere


def quota_used(connection: Connection, user_id: str, quota: SessionQuota) -> SessionQuota:
    """Count what a user has of sessions, as far as ``quota`` limits it; whose turn it is (`take_turn`) counts alone."""
    mine = select(func.count()).select_from(schema.sessions).where(_S.user_id == user_id, schema.IS_SEEN)
    return SessionQuota(
        sessions=None if quota.sessions is None else connection.execute(mine).scalar_one(),
        awake=None if quota.awake is None else count_awake(connection, user_id),
        stored_bytes=None if quota.stored_bytes is None else count_stored(connection, user_id),
    )


def take_out(connection: Connection, session_id: str, key: str) -> None:
    """Take a command out: it is applied, or refused, in the same transaction."""
    connection.execute(delete(schema.inbox).where(_I.session_id == session_id, _I.key == key))


def sessions_owing(
    connection: Connection, at: datetime, limit: int, after: tuple[datetime, str] | None
) -> list[OwedWork]:
    """List sessions that nobody holds and that owe work, or nothing but to take what waits: as `Store.owed`."""
    told = (_S.id, _S.user_id, _S.epoch, _S.updated_at)
    unheld = or_(_S.lease_until.is_(None), _S.lease_until < at)
    owing = select(*told).where(_S.owes.is_not(None), schema.IS_SEEN, unheld)
    all_of_them = union_all(owing, _asked(at).with_only_columns(*told).distinct()).subquery()
    of = all_of_them.c
    in_order = select(all_of_them).order_by(of.updated_at, of.id)
    parts = [in_order]
    if after is not None:
        changed_at, session_id = after
        is_later = or_(of.updated_at > changed_at, and_(of.updated_at == changed_at, of.id > session_id))
        parts = [in_order.where(is_later), in_order.where(not_(is_later))]
    found: list[OwedWork] = []
    for part in parts:
        rows = connection.execute(part.limit(limit - len(found))).mappings()
        found += [OwedWork(kind="session", **dict(row)) for row in rows]
    return found


def count_asked(connection: Connection, at: datetime) -> tuple[int, datetime | None]:
    """Count sessions that nobody holds and that owe nothing but to take what waits, and say since when one does."""
    waiting = _asked(at).with_only_columns(_S.id, func.min(_I.created_at).label("since")).group_by(_S.id).subquery()
    count, since = connection.execute(select(func.count(), func.min(waiting.c.since))).one()
    return count, since


def _asked(at: datetime) -> Select[*tuple[Any, ...]]:
    unheld = or_(_S.lease_until.is_(None), _S.lease_until < at)
    query = select(schema.sessions).join(schema.inbox, _I.session_id == _S.id)
    return query.where(_S.owes.is_(None), schema.IS_SEEN, unheld)


def why_not_activated(connection: Connection, session_id: str, activation: int | None) -> Exception:
    """Say why a session could not be taken."""
    there = select(_S.activation).where(_S.id == session_id, schema.IS_SEEN)
    current = connection.execute(there).scalar_one_or_none()
    if current is None or activation is None:
        return no_such("session", session_id)
    return superseded(session_id, activation=activation, current=current)


def _waiting(connection: Connection, session_id: str) -> list[CommandRecord]:
    return [record(CommandRecord, row) for row in connection.execute(_WAITING, {"of_session": session_id})]
