"""What lies in storage by its content: which objects a user has, how large they are, and which sessions need them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make both tables; what is there already is counted once the sweep has read the checkpoints that name it."""
    op.add_column("users", sa.Column("held_bytes", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.add_column("checkpoints", sa.Column("held", sa.Boolean(), nullable=False, server_default=sa.false()))
    older = sa.text("held IS FALSE")
    op.create_index(
        "ix_checkpoints_unheld", "checkpoints", ["user_id", "id"], sqlite_where=older, postgresql_where=older
    )
    op.create_table(
        "contents",
        sa.Column("user_id", sa.Text(), sa.ForeignKey("users.id", name="fk_contents_user_id"), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("holders", sa.Integer(), nullable=False, server_default=sa.text("1")),
        sa.Column("going", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("user_id", "key", name="pk_contents"),
    )
    unneeded = sa.text("holders = 0")
    op.create_index("ix_contents_unneeded", "contents", ["user_id"], sqlite_where=unneeded, postgresql_where=unneeded)
    op.create_table(
        "holdings",
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), sa.ForeignKey("users.id", name="fk_holdings_user_id"), nullable=False),
        sa.PrimaryKeyConstraint("holder", "key", name="pk_holdings"),
    )
    op.create_index("ix_holdings_user_id_key", "holdings", ["user_id", "key"])


def downgrade() -> None:
    """Drop them."""
    op.drop_table("holdings")
    op.drop_table("contents")
    op.drop_index("ix_checkpoints_unheld", "checkpoints")
    op.drop_column("checkpoints", "held")
    op.drop_column("users", "held_bytes")
