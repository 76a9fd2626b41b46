"""What model calls, sandboxes and renders cost, and the sums of it by session and by user and month."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "charges",
        sa.Column("work_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("accounts", sa.Text(), nullable=False),
        sa.Column("held", sa.Text(), nullable=False),
        sa.Column("spent", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_charges_user_id"),
        sa.PrimaryKeyConstraint("work_id", "id", name="pk_charges"),
    )
    is_open = sa.text("status = 'reserved'")
    op.create_index(
        "ix_charges_open", "charges", ["work_id", "updated_at"], sqlite_where=is_open, postgresql_where=is_open
    )
    op.create_table(
        "accounts",
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("held", sa.Text(), nullable=False),
        sa.Column("spent", sa.Text(), nullable=False),
        sa.Column("warned", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_accounts_user_id"),
        sa.PrimaryKeyConstraint("user_id", "id", name="pk_accounts"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("accounts")
    op.drop_index("ix_charges_open", table_name="charges")
    op.drop_table("charges")
