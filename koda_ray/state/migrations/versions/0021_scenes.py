"""A version knows the scenes that were planned when it was made."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_KEPT = sa.text(
    "SELECT v.session_id, v.id, s.state FROM versions v JOIN states s ON s.session_id = v.session_id AND s.rev = v.rev"
)
_TELL = sa.text("UPDATE versions SET scenes = :scenes WHERE session_id = :session_id AND id = :id")


def upgrade() -> None:
    """Add them, from the states that were kept with the versions."""
    op.add_column("versions", sa.Column("scenes", sa.Text(), nullable=False, server_default=sa.text("'[]'")))
    bind = op.get_bind()
    for session_id, version_id, text in bind.execute(_KEPT).all():  # not by the database: see 0016
        plan: dict[str, Any] = json.loads(text).get("plan") or {}
        scenes = [{name: each[name] for name in ("number", "title", "duration")} for each in plan.get("scenes", ())]
        bind.execute(_TELL, {"scenes": json.dumps(scenes), "session_id": session_id, "id": version_id})


def downgrade() -> None:
    """Drop them; the states still have them."""
    op.drop_column("versions", "scenes")
