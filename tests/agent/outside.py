"""What agents did to the outside world, which no crash undoes: rows in a database that is none of ours."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from koda_ray.agent.toolkit import ToolCall

__all__ = ["Outside", "effects", "record_effect"]


class Outside:
    """Implements `tests.agent.world.World` for processes that are killed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def charge(self, item: str, call: ToolCall) -> None:
        record_effect(self._path, item, once=False)

    def put(self, item: str, call: ToolCall) -> None:
        record_effect(self._path, f"{item}:{call.id}", once=True)

    def charged(self, call: ToolCall) -> list[str]:
        return effects(self._path)[0]


def record_effect(path: Path, key: str, *, once: bool) -> None:
    """Do something to the outside world that a crash does not undo: one row a time, or one row a key."""
    with sqlite3.connect(path, isolation_level=None) as outside:
        outside.execute("CREATE TABLE IF NOT EXISTS effects (n INTEGER PRIMARY KEY, key TEXT)")
        outside.execute("CREATE TABLE IF NOT EXISTS keyed (key TEXT PRIMARY KEY)")
        if once:
            outside.execute("INSERT OR IGNORE INTO keyed VALUES (?)", (key,))
        else:
            outside.execute("INSERT INTO effects (key) VALUES (?)", (key,))
    outside.close()


def effects(path: Path) -> tuple[list[str], list[str]]:
    """Read the outside world: effects in order, and keyed ones."""
    if not path.exists():
        return [], []
    with sqlite3.connect(path) as outside:
        plain = [row[0] for row in outside.execute("SELECT key FROM effects ORDER BY n")]
        keyed = [row[0] for row in outside.execute("SELECT key FROM keyed ORDER BY key")]
    outside.close()
    return plain, keyed
