"""The tables, once, in SQLAlchemy Core: the same for SQLite, libSQL and Postgres.

Migrations make them (``migrations/versions``); a test holds the two against each other. Ids that an agent or a model
chose are unique in their session only, so those tables are keyed by both. JSON is kept as text: all three databases
store it alike, and nothing here asks inside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    false,
    text,
)

from koda_ray.events import EPHEMERAL
from koda_ray.state.column_types import Json, Utc, Words
from koda_ray.state.columns import ID, number, partial_index, places, project_key, session_key, trace, user_key

__all__ = [
    "IS_EPHEMERAL",
    "IS_OPEN",
    "IS_SEEN",
    "IS_UNHELD",
    "IS_UNNEEDED",
    "SCHEMA_VERSION",
    "SESSION_TABLES",
    "accounts",
    "api_keys",
    "approvals",
    "assets",
    "beads",
    "canvases",
    "charges",
    "checkpoints",
    "chunks",
    "commands",
    "contents",
    "deployments",
    "events",
    "heads",
    "holdings",
    "images",
    "inbox",
    "jobs",
    "locks",
    "messages",
    "metadata",
    "processes",
    "projects",
    "sandboxes",
    "sessions",
    "share_comments",
    "shares",
    "states",
    "tool_calls",
    "users",
    "versions",
]

SCHEMA_VERSION = "0023"
"""The newest migration; a database stamped with it is opened without loading Alembic."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _asked(name: str, *, numbered: Sequence[Column[int]] = (), applied: Sequence[Column[int]] = ()) -> Table:
    """Make a table of commands: what was asked of sessions, each under its key."""
    return Table(
        name,
        metadata,
        session_key(),
        Column("key", Words, primary_key=True),
        *numbered,
        Column("id", ID, nullable=False),
        user_key(),
        Column("name", String(64), nullable=False),
        Column("body", Json, nullable=False),
        Column("body_hash", String(64), nullable=False),
        Column("result", Json, nullable=False),
        trace(),
        *applied,
        Column("created_at", Utc, nullable=False),
    )


users = Table(
    "users",
    metadata,
    Column("id", ID, primary_key=True),
    Column("created_at", Utc, nullable=False),
    number("held_bytes"),
)
"""``held_bytes`` is the sum of their ``contents``, kept with them: those may be many."""

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_hash", String(64), primary_key=True),
    Column("user_id", ID, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("name", Words, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("revoked_at", Utc),
)

projects = Table(
    "projects",
    metadata,
    Column("user_id", ID, ForeignKey("users.id"), primary_key=True),
    Column("id", ID, primary_key=True),
    Column("name", Words, nullable=False),
    Column("created_at", Utc, nullable=False),
)
"""Each its user's: ids are chosen by users, and what one calls theirs is nobody else's business."""

sessions = Table(
    "sessions",
    metadata,
    Column("id", ID, primary_key=True),
    Column("node_id", ID, nullable=False),
    user_key(),
    *project_key(),
    Column("state", Text, nullable=False),
    Column("owes", String(32)),
    Column("status", String(16), nullable=False),
    Column("title", Words),
    Column("pinned", Boolean, nullable=False, server_default=false()),
    Column("take_group", Words),
    Column("delete_at", Utc),
    Column("epoch", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    number("rev"),
    number("state_rev"),
    Column("history", Json),
    number("activation"),
    trace(),
    Column("host", Text),
    Column("lease_until", Utc),
    Column("create_key", Words, nullable=False),
    Column("create_hash", String(64), nullable=False),
    Column("last_activity", Utc, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    UniqueConstraint("user_id", "create_key"),
    Index("ix_sessions_user_id_id", "user_id", "id"),
    partial_index("ix_sessions_take_group", "user_id", "take_group", "id", where=text("take_group IS NOT NULL")),
    partial_index("ix_sessions_owed", "lease_until", where=text("owes IS NOT NULL")),
    partial_index("ix_sessions_delete_at", "delete_at", where=text("delete_at IS NOT NULL")),
)

IS_SEEN = and_(sessions.c.status != "closed", sessions.c.delete_at.is_(None))
"""A session that is neither being deleted nor discarded."""

commands = _asked(
    "commands",
    applied=(Column("first_seq", BigInteger, nullable=False), Column("last_seq", BigInteger, nullable=False)),
)

inbox = _asked("inbox", numbered=(Column("number", BigInteger, nullable=False),))
"""Commands that their session has not taken yet, in the order of ``number``."""

messages = Table(
    "messages",
    metadata,
    session_key(),
    Column("id", ID, primary_key=True),
    user_key(),
    Column("agent", ID, nullable=False),
    Column("position", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("content", Json, nullable=False),
    Column("created_at", Utc, nullable=False),
    *places(),
    Index("ix_messages_order", "session_id", "agent", "position"),
)

tool_calls = Table(
    "tool_calls",
    metadata,
    session_key(),
    Column("id", ID, primary_key=True),
    user_key(),
    Column("message_id", ID, nullable=False),
    Column("name", ID, nullable=False),
    Column("input", Json, nullable=False),
    Column("effect", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("result", Json),
    Column("ordinal", Integer, nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("ended_at", Utc),
    Index("ix_tool_calls_order", "session_id", "started_at"),
)

approvals = Table(
    "approvals",
    metadata,
    session_key(),
    Column("id", ID, primary_key=True),
    user_key(),
    Column("kind", String(16), nullable=False),
    Column("payload", Json, nullable=False),
    Column("status", String(16), nullable=False),
    Column("call_id", ID),
    Column("answer", Json),
    Column("ordinal", Integer, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("resolved_at", Utc),
)

beads = Table(
    "beads",
    metadata,
    session_key(),
    Column("id", ID, primary_key=True),
    user_key(),
    Column("type", String(16), nullable=False),
    Column("title", Words, nullable=False),
    Column("status", String(16), nullable=False),
    Column("position", Integer, nullable=False),
    Column("depends_on", Json, nullable=False),
    Column("data", Json, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("closed_at", Utc),
)

IS_UNHELD = text("held IS FALSE")
"""As text, not parameters, as `IS_EPHEMERAL`."""

checkpoints = Table(
    "checkpoints",
    metadata,
    session_key(),
    Column("id", ID, primary_key=True),
    user_key(),
    Column("manifest_key", Text, nullable=False),
    Column("trigger", String(32), nullable=False),
    Column("event_seq", BigInteger, nullable=False),
    Column("file_count", Integer, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Column("created_at", Utc, nullable=False),
    *places(),
    Index("ix_checkpoints_order", "session_id", "event_seq"),
    Index("ix_checkpoints_manifest_key", "manifest_key"),
    Column("held", Boolean, nullable=False, server_default=false()),
    partial_index("ix_checkpoints_unheld", "user_id", "id", where=IS_UNHELD),
)

states = Table(
    "states",
    metadata,
    session_key(),
    Column("rev", BigInteger, primary_key=True, autoincrement=False),
    user_key(),
    Column("state", Text, nullable=False),
)
"""What a session's state was at the moments that it can be put back to: from ``rev`` on, until another one."""

heads = Table(
    "heads",
    metadata,
    session_key(),
    Column("id", ID, primary_key=True),
    user_key(),
    Column("kind", String(16), nullable=False),
    Column("point", Words, nullable=False),
    Column("rev", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("history", Json, nullable=False),
    Column("state", Text, nullable=False),
    Column("parts", Json, nullable=False),
    Column("undone", Boolean, nullable=False),
    Column("created_at", Utc, nullable=False),
)
"""Where a session was each time it was put back, whole: messages by their numbers, the rest as it was."""

versions = Table(
    "versions",
    metadata,
    session_key(),
    Column("id", ID, primary_key=True),
    user_key(),
    Column("number", Integer, nullable=False),
    Column("job_id", ID, nullable=False),
    Column("final_job_id", ID),
    Column("bundle", Words, nullable=False),
    Column("checkpoint_id", ID),
    Column("asked", Words, nullable=False),
    Column("changes", Integer, nullable=False),
    Column("duration_s", Float, nullable=False),
    Column("scenes", Json, nullable=False, server_default=text("'[]'")),
    Column("note", Words, nullable=False),
    Column("starred", Boolean, nullable=False),
    Column("created_at", Utc, nullable=False),
    *places(),
    UniqueConstraint("session_id", "job_id"),
    Index("ix_versions_order", "session_id", "number"),
)
"""Each preview that a session has shown; its state is kept in ``states`` under the same ``rev``."""

shares = Table(
    "shares",
    metadata,
    session_key(),
    Column("id", ID, primary_key=True),
    user_key(),
    Column("token_hash", String(64), nullable=False, unique=True),
    Column("job_id", ID, nullable=False),
    Column("label", Words, nullable=False),
    Column("commenting", Boolean, nullable=False),
    Column("commented", Integer, nullable=False),
    Column("expires_at", Utc),
    Column("created_at", Utc, nullable=False),
    Index("ix_shares_user_id", "user_id"),
)
"""Links to videos; ``commented`` counts their ``share_comments``, and is written with them."""

share_comments = Table(
    "share_comments",
    metadata,
    session_key(),
    Column("id", ID, primary_key=True),
    user_key(),
    Column("share_id", ID, nullable=False),
    Column("name", Words, nullable=False),
    Column("text", Words, nullable=False),
    Column("at_s", Float),
    Column("created_at", Utc, nullable=False),
)

canvases = Table(
    "canvases",
    metadata,
    Column("user_id", ID, ForeignKey("users.id"), primary_key=True, nullable=False),
    Column("id", ID, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("name", Words, nullable=False),
    Column("node_count", Integer, nullable=False),
    Column("session_ids", Json, nullable=False),
    Column("layout", Json, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("changed_at", Utc, nullable=False),
)
"""How users laid out nodes. It names sessions, which come and go without it, so there is no foreign key to them."""

deployments = Table(
    "deployments",
    metadata,
    Column("name", String(16), primary_key=True),
    Column("id", String(32), nullable=False),
)
"""What this database is called among all: one row."""

images = Table(
    "images",
    metadata,
    Column("id", ID, primary_key=True),
    Column("user_id", ID, ForeignKey("users.id"), nullable=False, index=True),
    Column("name", Words, nullable=False),
    Column("provider", String(32), nullable=False),
    Column("provider_id", Text),
    Column("source", Words, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("status", String(16), nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc),
    Column("place", Text, nullable=False, server_default=""),
    Column("host", Words, nullable=False, server_default=""),
)


sandboxes = Table(
    "sandboxes",
    metadata,
    Column("id", ID, primary_key=True),
    Column("session_id", ID, ForeignKey("sessions.id", ondelete="CASCADE")),
    user_key(),
    Column("provider", String(32), nullable=False),
    Column("provider_id", Text),
    Column("status", String(16), nullable=False, index=True),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc),
    Column("image_id", ID),
    Column("network", Boolean, nullable=False, server_default=false()),
    Column("place", Text, nullable=False, server_default=""),
    Column("host", Words, nullable=False, server_default=""),
    Column("ended", Words, nullable=False, server_default=""),
    Column("unused_s", Integer),
    Index("ix_sandboxes_session_id", "session_id"),
)

processes = Table(
    "processes",
    metadata,
    Column("sandbox_id", ID, ForeignKey("sandboxes.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Words, primary_key=True),
    user_key(),
    Column("command", Words, nullable=False),
    Column("run", String(64), nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("ended_at", Utc),
    Column("exit_code", Integer),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", ID, primary_key=True),
    Column("user_id", ID, ForeignKey("users.id"), nullable=False, index=True),
    *project_key(),
    Column("session_id", ID, ForeignKey("sessions.id", ondelete="CASCADE"), index=True),
    Column("kind", String(16), nullable=False),
    Column("spec", Json, nullable=False),
    Column("status", String(16), nullable=False, index=True),
    Column("epoch", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("lease_until", Utc),
    Column("progress", Json, nullable=False),
    Column("result", Json),
    Column("error", Json),
    trace(),
    Column("video_s", Float, nullable=False, server_default=text("0")),
    Column("stored_bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
)

chunks = Table(
    "chunks",
    metadata,
    Column("job_id", ID, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("unit", Integer, primary_key=True, autoincrement=False),
    user_key(),
    Column("start", Integer, nullable=False),
    Column("stop", Integer, nullable=False),
    Column("key", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Column("wall_ms", Integer, nullable=False),
    Column("worker", Text, nullable=False),
    Column("error", Words),
    Column("created_at", Utc, nullable=False),
)

assets = Table(
    "assets",
    metadata,
    Column("id", ID, primary_key=True),
    user_key(),
    *project_key(),
    Column("session_id", ID, ForeignKey("sessions.id", ondelete="CASCADE"), index=True),
    Column("name", Words, nullable=False),
    Column("media_type", Words, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("key", Text, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("purpose", String(16), nullable=False, server_default="file"),
    Index("ix_assets_user_id", "user_id"),
)

IS_OPEN = text("status = 'reserved'")
"""As text, not parameters, as `IS_EPHEMERAL`."""

charges = Table(
    "charges",
    metadata,
    Column("work_id", ID, primary_key=True),
    Column("id", ID, primary_key=True),
    user_key(),
    Column("kind", String(16), nullable=False),
    Column("agent", ID, nullable=False),
    Column("model", ID, nullable=False),
    Column("status", String(16), nullable=False),
    Column("accounts", Json, nullable=False),
    Column("held", Json, nullable=False),
    Column("spent", Json, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("reason", Words),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    partial_index("ix_charges_open", "work_id", "updated_at", where=IS_OPEN),
)
"""The work is a session or a job, so there is no foreign key; deleting either deletes its charges."""

accounts = Table(
    "accounts",
    metadata,
    Column("user_id", ID, ForeignKey("users.id"), primary_key=True),
    Column("id", ID, primary_key=True),
    Column("held", Json, nullable=False),
    Column("spent", Json, nullable=False),
    Column("warned", Json, nullable=False),
    Column("updated_at", Utc, nullable=False),
)

IS_UNNEEDED = text("holders = 0")
"""As text, not parameters, as `IS_EPHEMERAL`."""

contents = Table(
    "contents",
    metadata,
    Column("user_id", ID, ForeignKey("users.id"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("holders", Integer, nullable=False, server_default=text("1")),
    Column("going", Boolean, nullable=False, server_default=false()),
    partial_index("ix_contents_unneeded", "user_id", where=IS_UNNEEDED),
)
"""Objects in storage that are there once, however many need them; ``holders`` counts those."""

holdings = Table(
    "holdings",
    metadata,
    Column("holder", ID, primary_key=True),
    Column("key", Text, primary_key=True),
    user_key(),
    Index("ix_holdings_user_id_key", "user_id", "key"),
)
"""The holder is a session, or nobody in particular, so there is no foreign key; deleting a session deletes its own."""

locks = Table(
    "locks",
    metadata,
    Column("name", ID, primary_key=True),
    Column("holder", Words, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("lease_until", Utc),
)

IS_EPHEMERAL = text(f"type IN ({', '.join(repr(name) for name in sorted(EPHEMERAL))})")
"""As text, not parameters: a partial index is used only where the query says the same words."""

events = Table(
    "events",
    metadata,
    Column("stream_id", ID, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("id", ID, nullable=False),
    user_key(),
    Column("channel", String(16), nullable=False),
    Column("type", String(32), nullable=False),
    Column("data", Json, nullable=False),
    Column("cause_id", ID),
    Column("epoch", BigInteger, nullable=False),
    Column("at", Utc, nullable=False),
    partial_index("ix_events_ephemeral", "at", where=IS_EPHEMERAL),
)
"""A stream is a session's or a job's, so there is no foreign key; deleting either deletes its stream."""

SESSION_TABLES = (
    commands,
    inbox,
    messages,
    tool_calls,
    approvals,
    beads,
    checkpoints,
    states,
    heads,
    versions,
    shares,
    share_comments,
    sandboxes,
    assets,
)
"""Tables whose rows go with their session, children first."""
