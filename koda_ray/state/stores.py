"""Which store the settings name, or a program in a word."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from koda_ray.config import Settings
from koda_ray.errors import InvalidInput
from koda_ray.state.store import Store

__all__ = ["store_at", "store_from"]

_JSON = "json:"


def store_at(where: Path | str) -> Store:
    """Build the store that a program names; nothing is opened yet.

    Args:
        where: A SQLite file's path, a database's URL, or ``json:PATH``, a folder for one process.

    Raises:
        InvalidInput: There is no path after ``json:``.
    """
    if isinstance(where, str) and where.startswith(_JSON):
        folder = where.removeprefix(_JSON).removeprefix("//")
        if not folder:
            raise InvalidInput(f"the store {where!r} names no folder; write json:PATH")
        from koda_ray.state.json_store import JSONStore

        return JSONStore(folder)
    from koda_ray.state.sql import SqlStore

    return SqlStore(where)


def store_from(settings: Settings, *, processes: Literal["one", "many"], connections: int = 4) -> Store:
    """Build the store that the settings name; nothing is opened yet.

    Args:
        settings: Where it is.
        processes: How many will open it: a server's are many (each session is a Ray actor, which is a process).
        connections: How many this process has to a SQL database at most.

    Raises:
        InvalidInput: It is for one process, and there will be many.
    """
    folder = settings.json_store_path
    if folder is None:
        from koda_ray.state.sql import SqlStore

        return SqlStore.from_settings(settings, connections=connections)
    if processes == "many":
        raise InvalidInput(
            f"DATABASE_URL=json:{folder} keeps everything in a folder for one process, and a server has many: Ray's "
            "actors. Use SQLite: leave DATABASE_URL out, with DATABASE_PROVIDER=sqlite or without"
        )
    from koda_ray.state.json_store import JSONStore

    return JSONStore(folder)
