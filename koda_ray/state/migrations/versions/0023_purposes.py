"""What an upload is for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it; what was uploaded before counts as a file, since nothing tells which of them are pictures of notes."""
    op.add_column("assets", sa.Column("purpose", sa.String(16), nullable=False, server_default="file"))


def downgrade() -> None:
    """Drop it: pictures of notes are files among the others then."""
    op.drop_column("assets", "purpose")
