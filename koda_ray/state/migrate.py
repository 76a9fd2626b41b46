"""Bring a database to the newest schema, by Alembic, once, however many processes ask at the same time.

All steps run in one write transaction: whoever comes second waits for it and finds nothing to do, and a process that
is killed in the middle leaves the old schema.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, text

__all__ = ["downgrade", "upgrade"]

_POSTGRES_LOCK = 0x6B6F6461  # "koda"
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
    with _ONE_AT_A_TIME, engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
        config.attributes["connection"] = connection
        step(config)
