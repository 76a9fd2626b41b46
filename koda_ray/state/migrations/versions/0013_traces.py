"""Which span asked for a row's work, so that a trace goes on in another process."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_TABLES = ("sessions", "commands", "inbox", "jobs")


def upgrade() -> None:
    """Add it."""
    for table in _TABLES:
        op.add_column(table, sa.Column("trace", sa.String(64)))


def downgrade() -> None:
    """Drop it."""
    for table in _TABLES:
        op.drop_column(table, "trace")
