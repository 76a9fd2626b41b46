"""Canvases on the SQL database; see `canvases`."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, insert, select, update

from koda_ray.state import schema
from koda_ray.state.canvases import CanvasHead, CanvasRecord, put_over, too_many_canvases
from koda_ray.state.database import Database
from koda_ray.state.refusals import no_such
from koda_ray.state.rows import columns, field_names, record
from koda_ray.state.sql_accounts import ensure_user
from koda_ray.state.sql_content import take_turn

__all__ = ["SqlCanvases"]

_V = schema.canvases.c
_HEAD = tuple(_V[name] for name in field_names(CanvasHead))


class SqlCanvases:
    """The part of `SqlStore` that keeps canvases."""

    _database: Database

    async def put_canvas(self, canvas: CanvasRecord, *, expected: int | None, most: int) -> CanvasHead:
        """Insert a canvas, or change it; see `CanvasStore.put_canvas`."""
        mine = (_V.user_id == canvas.user_id, _V.id == canvas.id)
        there = select(schema.canvases).where(*mine)
        held = select(func.count()).select_from(schema.canvases).where(_V.user_id == canvas.user_id)

        def work(connection: Connection) -> CanvasHead:
            ensure_user(self._database, connection, canvas.user_id)
            take_turn(connection, canvas.user_id)  # of two at once, one sees what the other made
            row = connection.execute(there).first()
            before = None if row is None else record(CanvasRecord, row)
            made = put_over(before, canvas, expected=expected)
            if before is None:
                if connection.execute(held).scalar_one() >= most:
                    raise too_many_canvases(most)
                connection.execute(insert(schema.canvases).values(columns(made)))
            elif made is not before:
                connection.execute(update(schema.canvases).where(*mine).values(columns(made)))
            return made

        return await self._database.write(work)

    async def canvases(self, user_id: str) -> list[CanvasHead]:
        """Read what lists show of a user's canvases, changed last first."""
        query = select(*_HEAD).where(_V.user_id == user_id)
        return await self._database.records(CanvasHead, query.order_by(_V.changed_at.desc(), _V.id.desc()))

    async def canvas(self, user_id: str, canvas_id: str) -> CanvasRecord:
        """Read one; NotFound where there is none."""
        query = select(schema.canvases).where(_V.user_id == user_id, _V.id == canvas_id)
        found = await self._database.records(CanvasRecord, query)
        if not found:
            raise no_such("canvas", canvas_id)
        return found[0]

    async def remove_canvas(self, user_id: str, canvas_id: str) -> None:
        """Remove one; NotFound where there is none."""
        gone = delete(schema.canvases).where(_V.user_id == user_id, _V.id == canvas_id).returning(_V.id)

        def work(connection: Connection) -> None:
            if connection.execute(gone).first() is None:
                raise no_such("canvas", canvas_id)

        await self._database.write(work)
