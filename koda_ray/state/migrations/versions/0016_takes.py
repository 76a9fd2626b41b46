"""Takes of one prompt are found by what they have in common."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_SOME = sa.text("take_group IS NOT NULL")


def upgrade() -> None:
    """Add it as a column, from the states that name one."""
    op.add_column("sessions", sa.Column("take_group", sa.Text()))
    bind = op.get_bind()
    named = sa.text("SELECT id, state FROM sessions WHERE state LIKE '%\"group\"%grp_%'")
    for session_id, state in bind.execute(named).all():  # not by the database: to Postgres a prompt with NUL is no JSON
        group = json.loads(state).get("group")
        change = sa.text("UPDATE sessions SET take_group = :take_group WHERE id = :id")
        bind.execute(change, {"take_group": group, "id": session_id})
    op.create_index(
        "ix_sessions_take_group",
        "sessions",
        ["user_id", "take_group", "id"],
        sqlite_where=_SOME,
        postgresql_where=_SOME,
    )


def downgrade() -> None:
    """Drop it; the states still name it."""
    op.drop_index("ix_sessions_take_group", "sessions")
    op.drop_column("sessions", "take_group")
