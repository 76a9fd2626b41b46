"""The first tables: users, sessions and everything that is kept of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.Text()
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "users",
        sa.Column("id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
    )
    op.create_table(
        "api_keys",
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("revoked_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_api_keys_user_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key_hash", name="pk_api_keys"),
    )
    op.create_index("ix_api_keys_user_id", "api_keys", ["user_id"])
    op.create_table(
        "events",
        sa.Column("stream_id", ID, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("channel", sa.String(length=16), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("cause_id", ID, nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_events_user_id"),
        sa.PrimaryKeyConstraint("stream_id", "seq", name="pk_events"),
    )
    op.create_index(
        "ix_events_ephemeral",
        "events",
        ["at"],
        sqlite_where=sa.text("type IN ('code_chunk', 'render_progress')"),
        postgresql_where=sa.text("type IN ('code_chunk', 'render_progress')"),
    )
    op.create_table(
        "projects",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_projects_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
    )
    op.create_index("ix_projects_user_id", "projects", ["user_id"])
    op.create_table(
        "sessions",
        sa.Column("id", ID, nullable=False),
        sa.Column("node_id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("owes", sa.String(length=32), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("lease_until", TIME, nullable=True),
        sa.Column("create_key", sa.Text(), nullable=False),
        sa.Column("create_hash", sa.String(length=64), nullable=False),
        sa.Column("last_activity", TIME, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_sessions_project_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_sessions_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.UniqueConstraint("user_id", "create_key", name="uq_sessions_user_id_create_key"),
    )
    op.create_index(
        "ix_sessions_owed",
        "sessions",
        ["lease_until"],
        sqlite_where=sa.text("owes IS NOT NULL"),
        postgresql_where=sa.text("owes IS NOT NULL"),
    )
    op.create_index("ix_sessions_user_id_id", "sessions", ["user_id", "id"])
    op.create_table(
        "approvals",
        sa.Column("session_id", ID, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("call_id", ID, nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("resolved_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_approvals_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_approvals_user_id"),
        sa.PrimaryKeyConstraint("session_id", "id", name="pk_approvals"),
    )
    op.create_table(
        "assets",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("session_id", ID, nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_assets_project_id"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_assets_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_assets_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_assets"),
    )
    op.create_index("ix_assets_session_id", "assets", ["session_id"])
    op.create_table(
        "beads",
        sa.Column("session_id", ID, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("depends_on", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("closed_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_beads_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_beads_user_id"),
        sa.PrimaryKeyConstraint("session_id", "id", name="pk_beads"),
    )
    op.create_table(
        "checkpoints",
        sa.Column("session_id", ID, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("manifest_key", sa.Text(), nullable=False),
        sa.Column("trigger", sa.String(length=32), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("file_count", sa.Integer(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_checkpoints_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_checkpoints_user_id"),
        sa.PrimaryKeyConstraint("session_id", "id", name="pk_checkpoints"),
    )
    op.create_index("ix_checkpoints_order", "checkpoints", ["session_id", "event_seq"])
    op.create_table(
        "commands",
        sa.Column("session_id", ID, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.String(length=64), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_commands_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_commands_user_id"),
        sa.PrimaryKeyConstraint("session_id", "key", name="pk_commands"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("session_id", ID, nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", TIME, nullable=True),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_jobs_project_id"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_jobs_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_jobs_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_session_id", "jobs", ["session_id"])
    op.create_index("ix_jobs_status", "jobs", ["status"])
    op.create_index("ix_jobs_user_id", "jobs", ["user_id"])
    op.create_table(
        "messages",
        sa.Column("session_id", ID, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("agent", ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_messages_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_messages_user_id"),
        sa.PrimaryKeyConstraint("session_id", "id", name="pk_messages"),
    )
    op.create_index("ix_messages_order", "messages", ["session_id", "agent", "position"])
    op.create_table(
        "sandboxes",
        sa.Column("id", ID, nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("provider", sa.String(length=32), nullable=False),
        sa.Column("provider_id", sa.Text(), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_sandboxes_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_sandboxes_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_sandboxes"),
    )
    op.create_index("ix_sandboxes_session_id", "sandboxes", ["session_id"])
    op.create_index("ix_sandboxes_status", "sandboxes", ["status"])
    op.create_table(
        "tool_calls",
        sa.Column("session_id", ID, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("message_id", ID, nullable=False),
        sa.Column("name", ID, nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("effect", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_tool_calls_session_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_tool_calls_user_id"),
        sa.PrimaryKeyConstraint("session_id", "id", name="pk_tool_calls"),
    )
    op.create_index("ix_tool_calls_order", "tool_calls", ["session_id", "started_at"])
    op.create_table(
        "chunks",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("unit", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("stop", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("wall_ms", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_chunks_job_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_chunks_user_id"),
        sa.PrimaryKeyConstraint("job_id", "unit", name="pk_chunks"),
    )


def downgrade() -> None:
    """Drop every table, children first."""
    op.drop_table("chunks")
    op.drop_table("tool_calls")
    op.drop_table("sandboxes")
    op.drop_table("messages")
    op.drop_table("jobs")
    op.drop_table("commands")
    op.drop_table("checkpoints")
    op.drop_table("beads")
    op.drop_table("assets")
    op.drop_table("approvals")
    op.drop_table("sessions")
    op.drop_table("projects")
    op.drop_table("events")
    op.drop_table("api_keys")
    op.drop_table("users")
