"""Bring an older database to the newest schema, by Alembic, once, however many processes ask at the same time.

All steps run in one write transaction: whoever comes second waits for it and finds nothing to do, and a process that
is killed in the middle leaves the old schema. What is new has no steps to go: `koda_ray.state.creation` makes it.

SQLite changes a table by making it anew, and to drop the old one would take along all that hangs on its rows. So there
foreign keys are off meanwhile, and looked at before the end. Source: sqlite.org/lang_altertable.html, section 7.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, text

from koda_ray.errors import StorageError
from koda_ray.state.creation import one_at_a_time

__all__ = ["downgrade", "upgrade"]

# Alembic keeps its context in globals of its own, so two databases cannot be migrated at once in one process
_ONE_AT_A_TIME = threading.Lock()


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Run the migrations that are missing. ``engine`` begins write transactions."""
    _run(engine, lambda config: command.upgrade(config, revision))


def downgrade(engine: Engine, revision: str) -> None:
    """Undo migrations down to ``revision`` (``base`` for all)."""
    _run(engine, lambda config: command.downgrade(config, revision))


def _run(engine: Engine, step: Callable[[Config], None]) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    with _ONE_AT_A_TIME, engine.connect() as connection, _without_foreign_keys(connection), connection.begin():
        one_at_a_time(connection)
        config.attributes["connection"] = connection
        step(config)
        if engine.dialect.name == "sqlite" and (lost := connection.execute(text("PRAGMA foreign_key_check")).first()):
            raise StorageError(
                f"a row of {lost[0]} is left without its row of {lost[2]}: nothing of the migration was kept",
                code="DAMAGED",
                retryable=False,
            )


@contextmanager
def _without_foreign_keys(connection: Connection) -> Generator[None]:
    """Turn SQLite's foreign keys off, which has to be before a transaction, and on again."""
    if connection.dialect.name != "sqlite":
        yield
        return
    cursor = connection.connection.cursor()  # the driver's own: SQLAlchemy would begin a transaction
    try:
        cursor.execute("PRAGMA foreign_keys = OFF")
        yield
    finally:
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()
