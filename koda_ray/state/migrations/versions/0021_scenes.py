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

_MADE = sa.text("SELECT session_id, id, rev FROM versions")
_KEPT = sa.text("SELECT state FROM states WHERE session_id = :session_id AND rev = :rev")
_TELL = sa.text("UPDATE versions SET scenes = :scenes WHERE session_id = :session_id AND id = :id")


def upgrade() -> None:
    """Add them, from the states that were kept with the versions."""
    op.add_column("versions", sa.Column("scenes", sa.Text(), nullable=False, server_default=sa.text("'[]'")))
    bind = op.get_bind()
    for session_id, version_id, rev in bind.execute(_MADE).all():
        # not by the database (see 0016), and one at a time: a state may be large
        text = bind.execute(_KEPT, {"session_id": session_id, "rev": rev}).scalar_one_or_none()
        if text is not None and (scenes := _planned(text)):
            bind.execute(_TELL, {"scenes": json.dumps(scenes), "session_id": session_id, "id": version_id})


def _planned(state: str) -> list[dict[str, Any]]:
    """Return the scenes of a state's plan; none where it has none that could be shown."""
    plan: dict[str, Any] = json.loads(state).get("plan") or {}
    scenes: list[dict[str, Any]] = plan.get("scenes") or []
    wanted = ("number", "title", "duration")
    if not all(set(wanted) <= {*each} for each in scenes):
        return []
    return [{name: each[name] for name in wanted} for each in scenes]


def downgrade() -> None:
    """Drop them; the states still have them."""
    op.drop_column("versions", "scenes")
