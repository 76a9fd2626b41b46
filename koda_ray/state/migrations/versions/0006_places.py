"""Whose and where: the database's own name, and the places of sandboxes and images."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, and the columns."""
    op.create_table(
        "deployments",
        sa.Column("name", sa.String(16), nullable=False),
        sa.Column("id", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_deployments"),
    )
    for table in ("images", "sandboxes"):
        with op.batch_alter_table(table) as changed:
            changed.add_column(sa.Column("place", sa.Text(), nullable=False, server_default=""))
            changed.add_column(sa.Column("host", sa.Text(), nullable=False, server_default=""))
    with op.batch_alter_table("images") as images:
        images.add_column(sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    """Drop them."""
    with op.batch_alter_table("images") as images:
        images.drop_column("expires_at")
    for table in ("sandboxes", "images"):
        with op.batch_alter_table(table) as changed:
            changed.drop_column("host")
            changed.drop_column("place")
    op.drop_table("deployments")
