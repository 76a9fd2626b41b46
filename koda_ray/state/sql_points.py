"""A session's points on the SQL database: whether there is one, and a page of them; see `points`.

A message's words are found in its whole content, so of the messages on a page so many are read at once as are small
together: what one answer takes does not grow with what was ever said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Table, and_, exists, false, func, literal, or_, select, union_all

from koda_ray.state import schema
from koda_ray.state.past import PointRecord, Span
from koda_ray.state.points import said_in
from koda_ray.state.rows import record

__all__ = ["SqlPointLookup", "counted", "points_of"]

_READ_CHARS = 1 << 18


class SqlPointLookup:
    """What the database says of a session's points; see `PointLookup`."""

    def __init__(self, connection: Connection, session_id: str, spans: Sequence[Span]) -> None:
        self._connection = connection
        self._session_id = session_id
        self._spans = spans

    def can_undo(self) -> bool:
        """Whether a rewind was not undone."""
        table = schema.heads.c
        return self._is_any(table.session_id == self._session_id, table.kind == "rewind", ~table.undone)

    def has_head(self, head_id: str) -> bool:
        """Whether there is this head."""
        table = schema.heads.c
        return self._is_any(table.session_id == self._session_id, table.id == head_id)

    def has_version(self, version_id: str) -> bool:
        """Whether there is this version."""
        table = schema.versions.c
        return self._is_any(table.session_id == self._session_id, table.id == version_id)

    def rev_of(self, point: str) -> int | None:
        """Return the commit of a message or a checkpoint."""
        for table in (schema.messages, schema.checkpoints):
            query = select(table.c.rev).where(table.c.session_id == self._session_id, table.c.id == point)
            if (rev := self._connection.execute(query).scalar_one_or_none()) is not None:
                return rev
        return None

    def next_rev(self, rev: int, *, checkpoints: bool) -> int | None:
        """Return the next commit that counts and has a message, or a checkpoint."""
        tables = (schema.messages, schema.checkpoints) if checkpoints else (schema.messages,)
        mine = [
            select(func.min(table.c.rev)).where(
                table.c.session_id == self._session_id, table.c.rev > rev, counted(table, self._spans)
            )
            for table in tables
        ]
        found = [self._connection.execute(query).scalar_one() for query in mine]
        return min((each for each in found if each is not None), default=None)

    def has_state(self, rev: int) -> bool:
        """Whether a state that counts was kept at a commit or before."""
        table = schema.states
        return self._is_any(table.c.session_id == self._session_id, table.c.rev <= rev, counted(table, self._spans))

    def _is_any(self, *which: ColumnElement[bool]) -> bool:
        return bool(self._connection.execute(select(exists().where(*which))).scalar_one())


def counted(table: Table, spans: Sequence[Span]) -> ColumnElement[bool]:
    """Whether a row's commit is in one of the stretches."""
    rev = table.c.rev
    return or_(
        false(),
        *(rev >= s.rev if s.rev_stop is None else and_(rev >= s.rev, rev < s.rev_stop) for s in spans),
    )


def points_of(
    connection: Connection, session_id: str, *, limit: int, before: tuple[datetime, str] | None
) -> list[PointRecord]:
    """Read a page of points; see `HistoryStore.points`."""
    said, saved, left = schema.messages.c, schema.checkpoints.c, schema.heads.c
    none, no = literal(""), false().label("undone")
    every = union_all(
        select(
            said.id,
            literal("message").label("kind"),
            said.created_at,
            none.label("text"),
            said.agent,
            said.role,
            no,
        ).where(said.session_id == session_id, said.live),
        select(saved.id, literal("checkpoint"), saved.created_at, saved.trigger, none, none, no).where(
            saved.session_id == session_id, saved.live
        ),
        select(left.id, literal("head"), left.created_at, left.point, none, none, left.undone).where(
            left.session_id == session_id
        ),
    ).subquery()
    points = every.c
    query = select(every)
    if before is not None:
        at, point_id = before
        query = query.where(or_(points.created_at < at, and_(points.created_at == at, points.id < point_id)))
    query = query.order_by(points.created_at.desc(), points.id.desc()).limit(limit)
    found = [record(PointRecord, row) for row in connection.execute(query)]
    words = dict(_words(connection, session_id, [each.id for each in found if each.kind == "message"]))
    return [replace(each, text=words[each.id]) if each.kind == "message" else each for each in found]


def _words(connection: Connection, session_id: str, ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield how messages begin."""
    said = schema.messages.c
    mine = said.session_id == session_id
    sizes = connection.execute(select(said.id, func.length(said.content)).where(mine, said.id.in_(ids)))
    for together in _small_together((row[0], row[1]) for row in sizes):
        for row in connection.execute(select(said.id, said.content).where(mine, said.id.in_(together))):
            yield row.id, said_in(row.content)


def _small_together(sizes: Iterable[tuple[str, int]]) -> Iterator[list[str]]:
    """Yield ids of contents that are read at once: several of few characters, or one of many."""
    together: list[str] = []
    chars = 0
    for each, size in sizes:
        if together and chars + size > _READ_CHARS:
            yield together
            together, chars = [], 0
        together.append(each)
        chars += size
    if together:
        yield together
