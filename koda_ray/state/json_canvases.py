"""Canvases in a folder of JSON; see `canvases`."""

from __future__ import annotations

from koda_ray.state.canvases import CanvasHead, CanvasRecord, put_over, too_many_canvases
from koda_ray.state.json_accounts import ensure_user
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_rows import decode, encode
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.refusals import no_such

__all__ = ["JsonCanvases"]


class JsonCanvases:
    """The part of `JSONStore` that keeps canvases."""

    _database: JsonDatabase

    async def put_canvas(self, canvas: CanvasRecord, *, expected: int | None, most: int) -> CanvasHead:
        """Insert a canvas, or change it; see `CanvasStore.put_canvas`."""

        def work(change: Transaction) -> CanvasHead:
            ensure_user(change, canvas.user_id)
            row = change.tables.get("canvases", canvas.id, canvas.user_id)
            before = None if row is None else decode(CanvasRecord, row)
            made = put_over(before, canvas, expected=expected)
            if before is None and sum(1 for _ in change.tables.of("canvases", canvas.user_id)) >= most:
                raise too_many_canvases(most)
            if made is not before:
                change.put("canvases", encode(made))
            return made

        return await self._database.write(work)

    async def canvases(self, user_id: str) -> list[CanvasHead]:
        """Read what lists show of a user's canvases, changed last first."""

        def work(tables: Tables) -> list[CanvasHead]:
            found = [decode(CanvasHead, row) for row in tables.of("canvases", user_id)]
            return sorted(found, key=lambda each: (each.changed_at, each.id), reverse=True)

        return await self._database.read(work)

    async def canvas(self, user_id: str, canvas_id: str) -> CanvasRecord:
        """Read one; NotFound where there is none."""
        return await self._database.read(lambda tables: decode(CanvasRecord, _row(tables, user_id, canvas_id)))

    async def remove_canvas(self, user_id: str, canvas_id: str) -> None:
        """Remove one; NotFound where there is none."""

        def work(change: Transaction) -> None:
            _row(change.tables, user_id, canvas_id)
            change.remove("canvases", canvas_id, user_id)

        await self._database.write(work)


def _row(tables: Tables, user_id: str, canvas_id: str) -> TableRow:
    row = tables.get("canvases", canvas_id, user_id)
    if row is None:
        raise no_such("canvas", canvas_id)
    return row
