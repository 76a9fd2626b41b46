"""What is swept knows two more types: pieces of what an agent says, and the breakpoints that it enters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_BEFORE = "type IN ('code_chunk', 'render_progress')"
_NOW = "type IN ('breakpoint_change', 'code_chunk', 'render_progress', 'text_chunk')"


def upgrade() -> None:
    """Make the index anew."""
    _index(_NOW)


def downgrade() -> None:
    """Make it as it was."""
    _index(_BEFORE)


def _index(where: str) -> None:
    op.drop_index("ix_events_ephemeral", "events")
    words = sa.text(where)
    op.create_index("ix_events_ephemeral", "events", ["at"], sqlite_where=words, postgresql_where=words)
