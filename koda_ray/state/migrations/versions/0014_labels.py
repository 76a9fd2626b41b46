"""What a person calls a session, and whether it is pinned."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both."""
    op.add_column("sessions", sa.Column("title", sa.Text()))
    op.add_column("sessions", sa.Column("pinned", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("sessions", "pinned")
    op.drop_column("sessions", "title")
