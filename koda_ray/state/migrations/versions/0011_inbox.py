"""Commands that wait for their session, and under which name its process is sought."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the number of the name, and the table of what waits."""
    op.add_column("sessions", sa.Column("activation", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.create_table(
        "inbox",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.String(64), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_inbox_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_inbox_user_id"),
        sa.PrimaryKeyConstraint("session_id", "key", name="pk_inbox"),
    )


def downgrade() -> None:
    """Drop them; what waits is lost, as if it had never been said."""
    op.drop_table("inbox")
    op.drop_column("sessions", "activation")
