"""Where a session can be put back to, and where it was when that was done."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0"))


def upgrade() -> None:
    """Add the numbers of commits, and the tables of states and heads."""
    op.add_column("sessions", _number("rev"))
    op.add_column("sessions", _number("state_rev"))
    op.add_column("sessions", sa.Column("history", sa.Text(), nullable=True))
    for table in ("messages", "checkpoints"):
        op.add_column(table, _number("rev"))
        op.add_column(table, _number("seq"))
        op.add_column(table, sa.Column("live", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.create_index("ix_checkpoints_manifest_key", "checkpoints", ["manifest_key"])
    op.create_table(
        "states",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("rev", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_states_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_states_user_id"),
        sa.PrimaryKeyConstraint("session_id", "rev", name="pk_states"),
    )
    op.create_table(
        "heads",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("point", sa.Text(), nullable=False),
        sa.Column("rev", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("history", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("parts", sa.Text(), nullable=False),
        sa.Column("undone", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_heads_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_heads_user_id"),
        sa.PrimaryKeyConstraint("session_id", "id", name="pk_heads"),
    )


def downgrade() -> None:
    """Drop them; what does not count now goes with them, because nothing would tell it apart."""
    op.drop_table("heads")
    op.drop_table("states")
    op.drop_index("ix_checkpoints_manifest_key", "checkpoints")
    for table in ("messages", "checkpoints"):
        op.execute(sa.text(f"DELETE FROM {table} WHERE NOT live"))
        for column in ("live", "seq", "rev"):
            op.drop_column(table, column)
    for column in ("history", "state_rev", "rev"):
        op.drop_column("sessions", column)
