"""What several machines cannot share: a database or a storage that is a file on one of them.

Each machine would have one of its own, and none the whole: sessions that a node does not find, videos that it cannot
read. So that is refused: by a server as it starts, before it takes any work, and by a cluster's file as it is checked.
"""

from __future__ import annotations

from koda_ray.errors import InvalidInput

__all__ = ["SHARED_DATABASE", "SHARED_STORAGE", "not_shared", "refuse_own_disk"]

SHARED_DATABASE = (
    "set DATABASE_PROVIDER=postgres and DATABASE_URL=postgresql+psycopg://..., or DATABASE_PROVIDER=turso and TURSO_URL"
)
SHARED_STORAGE = (
    "set STORAGE_PROVIDER=s3 (or r2) with R2_BUCKET, R2_ENDPOINT, R2_ACCESS_KEY and R2_SECRET_KEY on all nodes"
)
_DATABASES = {"sqlite": "SQLite", "json": "a folder of JSON"}


def not_shared(*, database: str | None = None, storage: str | None = None) -> list[tuple[str, str]]:
    """Say which of these lie on one machine's disk, each with the way out.

    Args:
        database: ``DATABASE_PROVIDER``; None is not looked at.
        storage: ``STORAGE_PROVIDER``; None is not looked at.
    """
    found: list[tuple[str, str]] = []
    if database in _DATABASES:
        found.append((f"the database is {_DATABASES[database]} on one machine's disk", SHARED_DATABASE))
    if storage == "local":
        found.append(("the storage is one machine's disk", SHARED_STORAGE))
    return found


def refuse_own_disk(*, database: str, storage: str, nodes: int) -> None:
    """Refuse state on one machine's disk where several machines work.

    Args:
        database: ``DATABASE_PROVIDER``.
        storage: ``STORAGE_PROVIDER``.
        nodes: How many nodes of the cluster are alive.

    Raises:
        InvalidInput: They are more than one, and the database or the storage is a file on one of them.
    """
    found = not_shared(database=database, storage=storage) if nodes > 1 else []
    if found:
        what = " and ".join(what for what, _ in found)
        raise InvalidInput(
            f"the Ray cluster has {nodes} nodes, and {what}, which the others do not see: "
            + "; ".join(way_out for _, way_out in found)
        )
