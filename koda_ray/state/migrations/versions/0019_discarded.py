"""A session that somebody deleted may be had back until it is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_SOME = sa.text("delete_at IS NOT NULL")


def upgrade() -> None:
    """Add when that will be."""
    op.add_column("sessions", sa.Column("delete_at", sa.DateTime(timezone=True)))
    op.create_index("ix_sessions_delete_at", "sessions", ["delete_at"], sqlite_where=_SOME, postgresql_where=_SOME)


def downgrade() -> None:
    """Drop it: what would have been deleted stays."""
    op.drop_index("ix_sessions_delete_at", "sessions")
    op.drop_column("sessions", "delete_at")
