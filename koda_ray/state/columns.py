"""Columns that many tables have alike, for `koda_ray.state.schema`."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    TextClause,
    text,
    true,
)

from koda_ray.state.column_types import Words

__all__ = ["ID", "number", "partial_index", "places", "project_key", "session_key", "trace", "user_key"]

ID = Words()


def session_key() -> Column[str]:
    """Make the key of what belongs to a session and goes with it."""
    return Column("session_id", ID, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True, nullable=False)


def user_key() -> Column[str]:
    """Make the column that says whose a row is."""
    return Column("user_id", ID, ForeignKey("users.id"), nullable=False)


def project_key() -> tuple[Column[str], ForeignKeyConstraint]:
    """Make the column of what lies in a project of the row's user."""
    own = ForeignKeyConstraint(["user_id", "project_id"], ["projects.user_id", "projects.id"])
    return Column("project_id", ID, nullable=False), own


def trace() -> Column[str | None]:
    """Make the column of the trace that a row was written in."""
    return Column("trace", String(64))


def number(name: str) -> Column[int]:
    """Make a column that rows from before it have as 0."""
    return Column(name, BigInteger, nullable=False, server_default=text("0"))


def places() -> tuple[Column[int], Column[int], Column[bool]]:
    """Make the columns of what a session can be put back to: its commit, the event before it, whether it counts now."""
    return number("rev"), number("seq"), Column("live", Boolean, nullable=False, server_default=true())


def partial_index(name: str, *columns: str, where: TextClause) -> Index:
    """Make an index of some rows.

    What Postgres is told stands in ``info``, for `koda_ray.state.creation`: as an option of the index it would load
    that dialect, 2 MB, into every process that knows the tables.
    """
    return Index(name, *columns, sqlite_where=where, info={"postgresql_where": where})
