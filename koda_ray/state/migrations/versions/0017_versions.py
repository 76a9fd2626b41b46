"""The previews that a session has shown are its versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_SHOWN = '%"preview":{%'
_ASKED_CHARS = 1_000
_STATES = sa.text("SELECT rev, state FROM states WHERE session_id = :id AND state LIKE :shown ORDER BY rev")
_SAID = sa.text("SELECT MAX(seq) FROM messages WHERE session_id = :id AND rev <= :rev")
_KEPT = sa.text("SELECT COUNT(*) FROM states WHERE session_id = :id AND rev = :rev")
_KEEP = sa.text("INSERT INTO states (session_id, rev, user_id, state) VALUES (:id, :rev, :user, :state)")


def upgrade() -> None:
    """Make the table, of the states that were kept and show one."""
    versions = op.create_table(
        "versions",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("final_job_id", sa.Text()),
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.Column("checkpoint_id", sa.Text()),
        sa.Column("asked", sa.Text(), nullable=False),
        sa.Column("changes", sa.Integer(), nullable=False),
        sa.Column("duration_s", sa.Float(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("starred", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("rev", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("seq", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("live", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_versions_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_versions_user_id"),
        sa.PrimaryKeyConstraint("session_id", "id", name="pk_versions"),
        sa.UniqueConstraint("session_id", "job_id", name="uq_versions_session_id_job_id"),
    )
    op.create_index("ix_versions_order", "versions", ["session_id", "number"])
    bind = op.get_bind()
    for session_id in bind.execute(sa.text("SELECT id FROM sessions")).scalars().all():
        if rows := list(_versions_of(bind, session_id)):
            bind.execute(versions.insert(), rows)


def _versions_of(bind: sa.Connection, session_id: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each preview that a session's kept states show, and keep the present one's state."""
    query = sa.text("SELECT user_id, state, state_rev, history FROM sessions WHERE id = :id")
    user_id, present, state_rev, history = bind.execute(query, {"id": session_id}).one()
    spans = json.loads(history) if history else None
    seen: dict[str, dict[str, Any]] = {}
    before = 0
    kept = bind.execute(_STATES, {"id": session_id, "shown": _SHOWN}).all()
    for rev, text in [*kept, (state_rev, present)]:
        state: dict[str, Any] = json.loads(text)
        shown = state.get("preview")
        if not shown:
            continue
        output: dict[str, Any] = state.get("output") or {}
        if shown["jobId"] in seen:
            if output.get("videoUrl"):
                seen[shown["jobId"]]["final_job_id"] = output["jobId"]
            continue
        told = state.get("feedback", [])[: state.get("feedbackSeen", 0)]
        asked = "\n".join(told[before:] or told[-1:]) if told else state.get("prompt", "")
        before = len(told)
        if rev == state_rev and not bind.execute(_KEPT, {"id": session_id, "rev": rev}).scalar_one():
            bind.execute(_KEEP, {"id": session_id, "rev": rev, "user": user_id, "state": text})
        seen[shown["jobId"]] = {
            "session_id": session_id,
            "id": "ver_" + shown["jobId"].removeprefix("job_"),
            "user_id": user_id,
            "number": len(seen) + 1,
            "job_id": shown["jobId"],
            "final_job_id": output["jobId"] if output.get("videoUrl") else None,
            "bundle": shown["bundle"],
            "checkpoint_id": shown.get("checkpointId"),
            "asked": asked[:_ASKED_CHARS],
            "changes": len(told),
            "duration_s": shown["duration"],
            "note": "",
            "starred": False,
            "created_at": datetime.fromisoformat(state["updatedAt"]).astimezone(UTC),
            "rev": rev,
            "seq": bind.execute(_SAID, {"id": session_id, "rev": rev}).scalar_one() or 0,
            "live": spans is None or any(a <= rev and (b is None or rev < b) for a, b, *_ in spans),
        }
    yield from seen.values()


def downgrade() -> None:
    """Drop it; what states show stays."""
    op.drop_index("ix_versions_order", "versions")
    op.drop_table("versions")
