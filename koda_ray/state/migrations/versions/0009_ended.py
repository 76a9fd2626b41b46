"""Why a sandbox ended that nobody terminated."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column."""
    with op.batch_alter_table("sandboxes") as changed:
        changed.add_column(sa.Column("ended", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop it."""
    with op.batch_alter_table("sandboxes") as changed:
        changed.drop_column("ended")
