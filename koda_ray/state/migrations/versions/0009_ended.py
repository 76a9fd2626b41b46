"""Why a sandbox ended that nobody terminated, and how long one lives unused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the columns."""
    with op.batch_alter_table("sandboxes") as changed:
        changed.add_column(sa.Column("ended", sa.Text(), nullable=False, server_default=""))
        changed.add_column(sa.Column("unused_s", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    with op.batch_alter_table("sandboxes") as changed:
        changed.drop_column("unused_s")
        changed.drop_column("ended")
