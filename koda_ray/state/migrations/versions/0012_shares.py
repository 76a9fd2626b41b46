"""How long a render's video is, and how much it takes: what a user may have of both is counted in rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both; of videos from before nothing is known, and they count as nothing."""
    op.add_column("jobs", sa.Column("video_s", sa.Float(), nullable=False, server_default=sa.text("0")))
    op.add_column("jobs", sa.Column("stored_bytes", sa.BigInteger(), nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("jobs", "stored_bytes")
    op.drop_column("jobs", "video_s")
