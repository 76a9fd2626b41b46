"""What a user has is added up before each piece of work: their uploads are found by an index."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make it, but where 0015 has: for a while that did."""
    op.create_index("ix_assets_user_id", "assets", ["user_id"], if_not_exists=True)


def downgrade() -> None:
    """Drop it."""
    op.drop_index("ix_assets_user_id", "assets", if_exists=True)
