"""The JSON store's rows in memory, and the changes that make them.

A row is a record's fields as JSON. A table's rows are kept by owner (the session of a message, the stream of an event)
and key, so that what goes with its owner goes in one change. What a transaction changes is written as JSON first and
applied as read back from it: memory holds what opening the log again would give.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import chain, islice
from typing import TypeAlias, cast

from pydantic import JsonValue

from koda_ray.events import EPHEMERAL
from koda_ray.state.json_recovery import TableChange
from koda_ray.state.json_rows import moment, words

__all__ = ["TABLES", "TableRow", "Tables", "Transaction"]

TableRow: TypeAlias = dict[str, JsonValue]
_Key: TypeAlias = str | int
_Undo: TypeAlias = Callable[[], None]

TABLES: Mapping[str, tuple[str | None, str]] = {
    "deployments": (None, "name"),
    "users": (None, "id"),
    "api_keys": (None, "key_hash"),
    "projects": ("user_id", "id"),
    "sessions": (None, "id"),
    "commands": ("session_id", "key"),
    "inbox": ("session_id", "key"),
    "messages": ("session_id", "id"),
    "tool_calls": ("session_id", "id"),
    "approvals": ("session_id", "id"),
    "beads": ("session_id", "id"),
    "checkpoints": ("session_id", "id"),
    "states": ("session_id", "rev"),
    "heads": ("session_id", "id"),
    "versions": ("session_id", "id"),
    "shares": ("session_id", "id"),
    "share_comments": ("session_id", "id"),
    "canvases": ("user_id", "id"),
    "images": (None, "id"),
    "sandboxes": (None, "id"),
    "processes": ("sandbox_id", "name"),
    "jobs": (None, "id"),
    "chunks": ("job_id", "unit"),
    "assets": (None, "id"),
    "events": ("stream_id", "seq"),
    "locks": (None, "name"),
    "contents": ("user_id", "key"),
    "charges": ("work_id", "id"),
    "accounts": ("user_id", "id"),
}
"""Each table's owner and key; without an owner, all rows lie together."""

_NOBODY = ""
_ROWS_A_LINE = 200


class Tables:
    """All rows. What it gives out is its own: to be read, never changed."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, dict[_Key, TableRow]]] = {name: {} for name in TABLES}

    def get(self, table: str, key: _Key, owner: str | None = None) -> TableRow | None:
        """Return a row; None when it is not there."""
        rows = self._rows[table].get(_NOBODY if owner is None else words(owner))
        return None if rows is None else rows.get(words(key) if isinstance(key, str) else key)

    def of(self, table: str, owner: str | None = None) -> Iterator[TableRow]:
        """Go through the rows of one owner, in the order in which they came."""
        return iter(self._rows[table].get(_NOBODY if owner is None else words(owner), {}).values())

    def everywhere(self, table: str) -> Iterator[TableRow]:
        """Go through all rows of a table, whoever owns them."""
        return chain.from_iterable(rows.values() for rows in self._rows[table].values())

    def after(self, stream_id: str, seq: int) -> Iterator[TableRow]:
        """Go through a stream's events with a higher number, in order, without looking at those before."""
        rows = self._rows["events"].get(words(stream_id), {})
        last = next(reversed(rows), seq)  # numbers only grow, so the newest lies last
        return (rows[each] for each in range(max(seq, 0) + 1, cast("int", last) + 1) if each in rows)

    def count(self) -> dict[str, int]:
        """Count the rows of each table."""
        return {table: sum(map(len, owners.values())) for table, owners in self._rows.items()}

    def lines(self) -> Iterator[str]:
        """Write everything as the lines of a snapshot."""
        for table in self._rows:
            rows = self.everywhere(table)
            while part := list(islice(rows, _ROWS_A_LINE)):
                yield json.dumps({"table": table, "rows": part}, separators=(",", ":"))

    def apply(self, change: TableChange, undo: list[_Undo] | None = None) -> None:
        """Apply one change as it was read from JSON.

        Args:
            change: ``put`` a row, ``set`` fields of one, ``del`` one, ``drop`` all of an owner, or ``prune`` events.
            undo: Gets what takes it back; to be called from the last to the first.

        Raises:
            ValueError: There is no such change.
        """
        match change:
            case ["put", str(table), dict(row)]:
                owner, key = TABLES[table]
                place = _NOBODY if owner is None else cast("str", row[owner])
                self._put(table, place, cast("_Key", row[key]), row, undo)
            case ["set", str(table), str(place), str() | int() as key, dict(fields)]:
                self._put(table, place, key, {**self._rows[table][place][key], **fields}, undo)
            case ["del", str(table), str(place), str() | int() as key]:
                self._remove(table, place, [key], undo)
            case ["drop", str(table), str(place)]:
                self._drop(table, place, undo)
            case ["prune", str(before)]:
                for place, rows in self._rows["events"].items():
                    self._remove("events", place, [seq for seq, row in rows.items() if _is_past(row, before)], undo)
            case _:
                raise ValueError(f"no such change of a JSON store: {str(change)[:200]}")

    def ephemeral(self, before: datetime) -> int:
        """Count the events that ``prune`` would remove."""
        limit = moment(before)
        return sum(_is_past(row, limit) for rows in self._rows["events"].values() for row in rows.values())

    def _put(self, table: str, place: str, key: _Key, row: TableRow, undo: list[_Undo] | None) -> None:
        rows = self._rows[table].setdefault(place, {})
        if undo is not None:
            before = rows.get(key)

            def take_back() -> None:
                if before is None:
                    del rows[key]
                else:
                    rows[key] = before

            undo.append(take_back)
        rows[key] = row

    def _remove(self, table: str, place: str, keys: list[_Key], undo: list[_Undo] | None) -> None:
        rows = self._rows[table].get(place)
        if rows is None or not keys:
            return
        if undo is not None:
            whole = dict(rows)  # as it was, because a row that comes back comes back in its place

            def take_back() -> None:
                rows.clear()  # in place: what was done before has this very dictionary to take itself back from
                rows.update(whole)

            undo.append(take_back)
        for key in keys:
            rows.pop(key, None)

    def _drop(self, table: str, place: str, undo: list[_Undo] | None) -> None:
        rows = self._rows[table].pop(place, None)
        if rows is not None and undo is not None:
            undo.append(lambda: self._rows[table].update({place: rows}))


class Transaction:
    """Changes that happen together: they are seen at once by whoever comes next in the same thread, and can be undone.

    Args:
        tables: What is changed.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._texts: list[str] = []
        self._undo: list[_Undo] = []

    @property
    def text(self) -> str | None:
        """Everything as JSON; None when nothing was changed."""
        return f"[{','.join(self._texts)}]" if self._texts else None

    def put(self, table: str, row: TableRow) -> None:
        """Insert a row, or replace the one of the same key."""
        self._do(["put", table, row])

    def set(self, table: str, key: _Key, fields: TableRow, *, owner: str = _NOBODY) -> None:
        """Replace fields of a row that is there; ``owner`` for a table whose rows have one."""
        self._do(["set", table, words(owner), words(key) if isinstance(key, str) else key, fields])

    def remove(self, table: str, key: _Key, owner: str | None = None) -> None:
        """Remove a row; ``owner`` is as for ``Tables.get``."""
        place = _NOBODY if owner is None else words(owner)
        self._do(["del", table, place, words(key) if isinstance(key, str) else key])

    def drop(self, table: str, owner: str) -> None:
        """Remove all rows of an owner."""
        self._do(["drop", table, words(owner)])

    def prune(self, before: datetime) -> None:
        """Remove ephemeral events older than a time."""
        self._do(["prune", moment(before)])

    def undo(self) -> None:
        """Take everything back."""
        while self._undo:
            self._undo.pop()()
        self._texts.clear()

    def _do(self, change: TableChange) -> None:
        text = json.dumps(change, separators=(",", ":"))
        self.tables.apply(json.loads(text), self._undo)
        self._texts.append(text)


def _is_past(row: TableRow, before: str) -> bool:
    return row["type"] in EPHEMERAL and cast("str", row["at"]) < before
