"""Sandboxes that belong to no session, with their images and processes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, and let a sandbox be without a session."""
    op.create_table(
        "images",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("provider", sa.String(32), nullable=False),
        sa.Column("provider_id", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_images"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_images_user_id"),
    )
    op.create_index("ix_images_user_id", "images", ["user_id"])
    with op.batch_alter_table("sandboxes") as sandboxes:
        sandboxes.alter_column("session_id", existing_type=sa.Text(), nullable=True)
        sandboxes.add_column(sa.Column("image_id", sa.Text(), nullable=True))
        sandboxes.add_column(sa.Column("network", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "processes",
        sa.Column("sandbox_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("sandbox_id", "name", name="pk_processes"),
        sa.ForeignKeyConstraint(["sandbox_id"], ["sandboxes.id"], name="fk_processes_sandbox_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_processes_user_id"),
    )


def downgrade() -> None:
    """Drop them, with the sandboxes that only they know."""
    op.drop_table("processes")
    op.execute("DELETE FROM sandboxes WHERE session_id IS NULL")
    with op.batch_alter_table("sandboxes") as sandboxes:
        sandboxes.drop_column("network")
        sandboxes.drop_column("image_id")
        sandboxes.alter_column("session_id", existing_type=sa.Text(), nullable=False)
    op.drop_index("ix_images_user_id", "images")
    op.drop_table("images")
