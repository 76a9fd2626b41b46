"""The Store on a SQL database: sessions, their parts and their events.

Every change of a session is one transaction that begins with the fence, ``UPDATE sessions ... WHERE id = ? AND
epoch = ?``. That update also takes the row's lock, so whoever numbers events is alone, and numbers are seen in the
order in which they were given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, delete, func, or_, select, update
from sqlalchemy.engine import URL, make_url

from koda_ray.errors import Conflict
from koda_ray.events import Envelope, NewEvent
from koda_ray.state import schema
from koda_ray.state.boxes import SandboxRecord
from koda_ray.state.content import after_removal
from koda_ray.state.database import Database
from koda_ray.state.inbox import is_awake
from koda_ray.state.lookout import Lookout
from koda_ray.state.notify import Notifier
from koda_ray.state.records import (
    ApprovalRecord,
    Batch,
    BeadRecord,
    CheckpointRecord,
    CommandRecord,
    MessageRecord,
    OwedWork,
    SessionLabel,
    SessionQuota,
    SessionRecord,
    ToolCallRecord,
)
from koda_ray.state.refusals import (
    Repeated,
    belongs,
    check_sessions,
    no_such,
    too_many_awake,
    used_for_another,
    was_deleted,
)
from koda_ray.state.rows import body_hash, columns, number, session
from koda_ray.state.sql_accounts import SqlAccounts, copy_assets, ensure_project, give_assets
from koda_ray.state.sql_boxes import SqlBoxes
from koda_ray.state.sql_canvases import SqlCanvases
from koda_ray.state.sql_census import SqlCensus
from koda_ray.state.sql_charges import SqlCharges, enter_charges, remove_charges
from koda_ray.state.sql_content import SqlContent, may_begin, take_turn
from koda_ray.state.sql_discarding import SqlDiscarding, labelled
from koda_ray.state.sql_history import SqlHistory, save_state
from koda_ray.state.sql_holdings import SqlHoldings, leave_holdings
from koda_ray.state.sql_inbox import (
    WHOLE_QUOTA,
    SqlInbox,
    count_awake,
    quota_used,
    sessions_owing,
    take_out,
    why_not_activated,
)
from koda_ray.state.sql_jobs import SqlJobs, leave_results, put_chunks, put_job, renders_in_turn
from koda_ray.state.sql_parts import add_events, fenced, put_command
from koda_ray.state.sql_shares import SqlShares
from koda_ray.state.sql_tiers import SqlTiers
from koda_ray.state.sql_versions import SqlVersions, put_version
from koda_ray.tracing import trace_parent
from koda_ray.types import NodeState, now

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["SqlStore"]

_Part: TypeAlias = MessageRecord | ToolCallRecord | ApprovalRecord | BeadRecord | CheckpointRecord | SandboxRecord

_KEPT = ("ordinal", "user_id", "session_id", "rev", "seq", "live")
"""What an update of a part leaves as it was first."""
_S = schema.sessions.c
_PROMPT = r'"prompt":("(?:[^"\\]|\\.)*")'
"""Where a state has its prompt: inside of a string its quotes would have backslashes, and none of the few fields before
it has others in it."""
_E = schema.events.c
# made once: making a statement takes longer than running it
_SESSION = select(schema.sessions).where(_S.id == bindparam("of_session"), _S.status != "closed")
_OWN_SESSION = _SESSION.where(_S.user_id == bindparam("of_user"), _S.delete_at.is_(None))


class SqlStore(
    SqlHistory,
    SqlVersions,
    SqlShares,
    SqlCanvases,
    SqlDiscarding,
    SqlInbox,
    SqlJobs,
    SqlCharges,
    SqlAccounts,
    SqlBoxes,
    SqlContent,
    SqlHoldings,
    SqlTiers,
    SqlCensus,
):
    """A Store on SQLite (also libSQL and Postgres, where their drivers are installed).

    It is its URL and nothing more until it is opened, so it can be sent to another process, which opens its own.

    Args:
        url: A SQLAlchemy URL, or a path of a SQLite file.
        connections: How many calls are made at once at most, each on a connection of its own.
    """

    def __init__(self, url: str | Path, *, connections: int = 4) -> None:
        text = str(url)
        if "://" not in text:
            text = URL.create("sqlite", database=str(Path(text).expanduser().absolute())).render_as_string()
        self._connections = connections
        self._database = Database(text, connections=connections)
        self._notifier = Notifier()
        self._lookout = Lookout(self.newest, self._notifier)

    @classmethod
    def from_settings(cls, settings: Settings, *, connections: int = 4) -> SqlStore:
        """Build the store that the settings name; nothing is opened yet."""
        if settings.database_provider == "postgres" and settings.database_url is not None:
            return cls(settings.database_url.get_secret_value(), connections=connections)
        if settings.database_provider == "turso" and settings.turso_url is not None:
            token = settings.turso_token.get_secret_value() if settings.turso_token else ""
            scheme, _, host = settings.turso_url.partition("://")
            query = {"authToken": token} if token else {}
            if scheme not in ("http", "ws"):
                query["secure"] = "true"
            address = make_url(f"sqlite+libsql://{host.rstrip('/')}").set(query=query)
            return cls(address.render_as_string(hide_password=False), connections=connections)
        return cls(settings.database_path, connections=connections)

    def __repr__(self) -> str:
        return f"SqlStore({self._database!r})"

    def __reduce__(self) -> tuple[Callable[..., SqlStore], tuple[str]]:
        return (
            partial(SqlStore, connections=self._connections),
            (self._database.url.render_as_string(hide_password=False),),
        )

    @property
    def database(self) -> Database:
        """What it stands on, for statements that no method of a store makes."""
        return self._database

    @property
    def notifier(self) -> Notifier:
        """Who is woken by this process's commits."""
        return self._notifier

    @property
    def lookout(self) -> Lookout:
        """Who looks for commits of other processes, for everybody who follows something in this one."""
        return self._lookout

    async def open(self) -> None:
        """Connect and bring the schema up to date; see `Database.open`."""
        await self._database.open()

    async def close(self) -> None:
        """Release every connection; may be called twice."""
        await self._database.close()

    # --- sessions ---------------------------------------------------------------------------------------------------

    async def create_session(
        self,
        state: NodeState,
        *,
        key: str,
        body: dict[str, JsonValue],
        quota: SessionQuota | None = None,
        copies: Mapping[str, str] | None = None,
    ) -> tuple[SessionRecord, bool]:
        """Insert a session with its first event, its user and its project, and give it the assets that it names."""
        digest, trace = body_hash(body), trace_parent()

        def work(connection: Connection) -> tuple[SessionRecord, bool]:
            ensure_project(self._database, connection, state.user_id, state.project_id, state.project_id)
            may_begin(connection, state.user_id)
            at = now()
            values: dict[str, object] = {
                "id": state.session_id,
                "node_id": state.node_id,
                "user_id": state.user_id,
                "project_id": state.project_id,
                "state": state.model_dump_json(),
                "owes": state.owes,
                "trace": trace,
                "status": "active",
                "take_group": state.group,
                "epoch": 0,
                "seq": 1,
                "create_key": key,
                "create_hash": digest,
                "last_activity": at,
                "created_at": at,
                "updated_at": at,
            }
            insert = self._database.insert(schema.sessions).values(values)
            made = connection.execute(insert.on_conflict_do_nothing().returning(schema.sessions)).one_or_none()
            if made is not None:
                data: dict[str, JsonValue] = {
                    "phase": state.phase,
                    "owes": state.owes,
                    "state": state.model_dump(mode="json", by_alias=True),
                }
                first = NewEvent(type="state_change", data=data)
                add_events(connection, state.user_id, number(state.session_id, 1, 0, [first]))
                if copies:
                    copy_assets(connection, copies, state)
                elif state.asset_ids:
                    give_assets(connection, state.asset_ids, user_id=state.user_id, session_id=state.session_id)
                if quota is not None:
                    check_sessions(quota, quota_used(connection, state.user_id, quota))
                return session(made), True
            same = and_(_S.user_id == state.user_id, _S.create_key == key)
            row = connection.execute(select(schema.sessions).where(same)).one_or_none()
            if row is None:
                raise Conflict(f"session id {state.session_id} is taken; make another")
            if row.create_hash != digest:
                raise used_for_another("request", key)
            if row.status == "closed" or row.delete_at is not None:
                raise was_deleted(key)
            return session(row), False

        return await after_removal(
            lambda: self._database.write(work, lambda result: self._notifier.notify(result[0].id))
        )

    async def quota_used(self, user_id: str) -> SessionQuota:
        """Count what a user has of all that `SessionQuota` limits."""
        return await self._database.read(lambda connection: quota_used(connection, user_id, WHOLE_QUOTA))

    async def admit_session(self, session_id: str, *, user_id: str, most: int, until: datetime) -> None:
        """Count a session among those that are awake, where there are fewer than a user may have."""
        mine = and_(_S.id == session_id, _S.user_id == user_id, schema.IS_SEEN)

        def work(connection: Connection) -> None:
            take_turn(connection, user_id)
            row = connection.execute(
                select(_S.owes, _S.lease_until, _S.host).where(mine).with_for_update()
            ).one_or_none()
            if row is None:
                raise no_such("session", session_id)
            if is_awake(row.owes, row.lease_until):
                return
            if row.host is None:  # the lease of a process that fell silent must run out, whoever comes
                connection.execute(update(schema.sessions).where(mine).values(lease_until=until))
            waits = select(func.count()).where(schema.inbox.c.session_id == session_id)
            counted = row.host is None or connection.execute(waits).scalar_one() > 0
            if count_awake(connection, user_id) + (not counted) > most:
                raise too_many_awake(most)

        await self._database.write(work)

    async def get_session(self, session_id: str, *, user_id: str | None = None) -> SessionRecord:
        """Read a row; NotFound when it is missing, closed, or another user's, and for its user when it is discarded."""
        query, values = _SESSION, {"of_session": session_id}
        if user_id is not None:
            query, values = _OWN_SESSION, values | {"of_user": user_id}

        def work(connection: Connection) -> SessionRecord:
            row = connection.execute(query, values).one_or_none()
            if row is None:
                raise no_such("session", session_id)
            return session(row)

        return await self._database.read(work)

    async def list_sessions(
        self,
        user_id: str,
        *,
        limit: int = 50,
        before: str | None = None,
        pinned: bool | None = None,
        group: str | None = None,
        discarded: bool = False,
    ) -> list[SessionRecord]:
        """Read a user's sessions, newest first (ids sort by time)."""
        seen = _S.status != "closed" if discarded else schema.IS_SEEN
        query = select(schema.sessions).where(_S.user_id == user_id, seen, *labelled(pinned, group))
        if before is not None:
            query = query.where(_S.id < before)
        query = query.order_by(_S.id.desc()).limit(limit)
        return await self._database.read(lambda connection: [session(row) for row in connection.execute(query)])

    async def session_names(self, user_id: str, session_ids: Collection[str]) -> dict[str, str]:
        """Say what sessions are called, by id; see `Store.session_names`."""
        named = select(_S.id, _S.title, self._prompt()).where(
            _S.user_id == user_id, schema.IS_SEEN, _S.id.in_(session_ids)
        )
        rows = await self._database.read(lambda connection: connection.execute(named).all())
        return {row[0]: row[1] or json.loads(f"[{row[2]}]")[0] for row in rows}

    def _prompt(self) -> ColumnElement[str]:
        """Find a session's prompt, as JSON, in its state, which is read no further."""
        if self._database.is_sqlite:  # of two paths it makes an array, in which a NUL is as it was written
            both = func.json_extract(_S.state, "$.prompt", "$.prompt")
            return func.substr(both, 2, func.length(both) - 2)
        return func.substring(_S.state, _PROMPT)  # Postgres reads no JSON that has a NUL anywhere

    async def label_session(self, session_id: str, *, user_id: str, label: SessionLabel) -> SessionRecord:
        """Change how a session stands in its user's lists."""
        mine = (_S.id == session_id, _S.user_id == user_id, schema.IS_SEEN)
        values: dict[str, object] = {"pinned": _S.pinned if label.pinned is None else label.pinned}
        if label.title is not None:
            values["title"] = label.title or None
        statement = update(schema.sessions).where(*mine).values(values).returning(schema.sessions)
        row = await self._database.write(lambda connection: connection.execute(statement).one_or_none())
        if row is None:
            raise no_such("session", session_id)
        return session(row)

    async def close_unused(self, before: datetime, *, limit: int = 100) -> list[SessionRecord]:
        """Begin to delete sessions that were last used before a time; see `Store.close_unused`."""
        asked = select(schema.inbox.c.session_id)
        unheld = or_(_S.lease_until.is_(None), _S.lease_until < now())
        idle = (_S.owes.is_(None), schema.IS_SEEN, _S.pinned.is_(False))
        unused = (_S.last_activity < before, *idle, unheld, _S.id.not_in(asked))
        oldest = select(_S.id).where(*unused).order_by(_S.last_activity, _S.id).limit(limit)
        close = (
            update(schema.sessions)
            .where(_S.id.in_(oldest), *unused)  # once more: of two who come for a row the second finds it changed
            .values(epoch=_S.epoch + 1, status="closed", lease_until=None, updated_at=now())
            .returning(schema.sessions)
        )

        def work(connection: Connection) -> list[SessionRecord]:
            closed = [session(row) for row in connection.execute(close)]
            return sorted(closed, key=lambda row: (row.last_activity, row.id))

        return await self._database.write(work, self._tell)

    def _tell(self, closed: list[SessionRecord]) -> None:
        for row in closed:
            self._notifier.notify(row.id)

    async def activate(
        self, session_id: str, *, host: str, lease_until: datetime, activation: int | None = None
    ) -> SessionRecord:
        """Take the session: bump its epoch, which fences whoever had it."""
        named = () if activation is None else (_S.activation == activation,)
        statement = (
            update(schema.sessions)
            .where(_S.id == session_id, schema.IS_SEEN, *named)
            .values(epoch=_S.epoch + 1, host=host, lease_until=lease_until, status="active")
            .returning(schema.sessions)
        )

        def work(connection: Connection) -> SessionRecord:
            row = connection.execute(statement).one_or_none()
            if row is None:
                raise why_not_activated(connection, session_id, activation)
            return session(row)

        return await self._database.write(work)

    async def commit(self, session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
        """Apply a batch under the fence.

        A command that was applied before (same key, name and body) changes nothing again: the events that it led to
        then are returned.
        """
        try:
            return await self._database.write(
                lambda connection: self._apply(connection, session_id, epoch, batch),
                lambda made: self._notifier.notify(session_id) if made else None,
            )
        except Repeated as repeated:
            return await self._led_to(session_id, repeated)

    def _apply(self, connection: Connection, session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
        values: dict[str, object] = {"seq": _S.seq + len(batch.events), "rev": _S.rev + 1}
        at = now()
        new: dict[str, object] = {}
        if batch.state is not None:
            if batch.state.session_id != session_id:
                raise ValueError(f"state of session {batch.state.session_id} in a commit to {session_id}")
            new = {"state": batch.state.model_dump_json(), "owes": batch.state.owes, "updated_at": at}
            new["state_rev"] = _S.rev + 1
        is_point = bool(batch.messages) or batch.checkpoint is not None
        if not is_point:
            values |= new
        if batch.status is not None:
            values["status"] = batch.status
        if batch.touch:
            values["last_activity"] = at
        if batch.chunks:
            take_turn(connection, batch.chunks[0].user_id)
        fence = update(schema.sessions).where(_S.id == session_id, _S.epoch == epoch).values(values)
        row = connection.execute(fence.returning(_S.seq, _S.user_id, _S.rev)).one_or_none()
        if row is None:
            raise fenced(connection, schema.sessions, session_id, epoch)
        seq, user_id, rev = row
        if is_point:  # somebody may come back to what was until now
            save_state(self._database, connection, session_id)
            if new:
                connection.execute(update(schema.sessions).where(_S.id == session_id).values(new | {"state_rev": rev}))
        told = batch.events
        if batch.charges:
            warnings = enter_charges(
                self._database, connection, batch.charges, work_id=session_id, user_id=user_id, epoch=epoch
            )
            if warnings:
                told, seq = [*told, *warnings], seq + len(warnings)
                connection.execute(update(schema.sessions).where(_S.id == session_id).values(seq=seq))
        made = number(session_id, seq, epoch, told)
        if batch.command is not None:
            belongs(batch.command, session_id, user_id)
            put_command(self._database, connection, batch.command, user_id=user_id, seq=seq, count=len(made))
        if batch.refused is not None:
            take_out(connection, session_id, batch.refused)
        for table, records in (
            (schema.messages, batch.messages),
            (schema.tool_calls, batch.tool_calls),
            (schema.approvals, batch.approvals),
            (schema.beads, batch.beads),
            (schema.checkpoints, [batch.checkpoint] if batch.checkpoint is not None else []),
            (schema.sandboxes, batch.sandboxes),
        ):
            placed = {"rev": rev, "seq": seq - len(made)} if "live" in table.c else {}
            self._put(connection, table, records, session_id, user_id, placed)
        for job in batch.jobs:
            belongs(job, session_id, user_id)
            put_job(self._database, connection, job)
        put_chunks(self._database, connection, batch.chunks, user_id=user_id)
        if put_version(self._database, connection, batch.state, batch.events, rev=rev, seq=seq):
            save_state(self._database, connection, session_id)
        add_events(connection, user_id, made)
        return made

    def _put(
        self,
        connection: Connection,
        table: Table,
        records: Sequence[_Part],
        session_id: str,
        user_id: str,
        placed: dict[str, int],
    ) -> None:
        if not records:
            return
        ordered = "ordinal" in table.c
        rows: list[dict[str, object]] = []
        for position, item in enumerate(records):
            belongs(item, session_id, user_id)
            rows.append(columns(item) | placed | ({"ordinal": position} if ordered else {}))
        # the first place in a list stays: an update must not move a call behind those that started after it
        connection.execute(self._database.upsert(table, keep=_KEPT), rows)

    async def release(self, session_id: str, epoch: int) -> None:
        """Give the lease up; a no-op when fenced."""
        statement = (
            update(schema.sessions)
            .where(_S.id == session_id, _S.epoch == epoch, _S.status != "closed")
            .values(status="suspended", lease_until=None, host=None)
        )
        await self._database.write(lambda connection: connection.execute(statement))

    async def close_session(self, session_id: str, *, user_id: str) -> SessionRecord:
        """Begin to delete a session: it is seen no more, and whoever held it is fenced; NotFound for another user's."""
        statement = (
            update(schema.sessions)
            .where(_S.id == session_id, _S.user_id == user_id)
            .values(epoch=_S.epoch + 1, status="closed", lease_until=None, updated_at=now())
            .returning(schema.sessions)
        )
        row = await self._database.write(
            lambda connection: connection.execute(statement).one_or_none(),
            lambda _: self._notifier.notify(session_id),
        )
        if row is None:
            raise no_such("session", session_id)
        return session(row)

    async def closed_sessions(self, *, limit: int = 100) -> list[SessionRecord]:
        """Read sessions whose deletion has begun and not ended, oldest first."""
        query = select(schema.sessions).where(_S.status == "closed").order_by(_S.updated_at).limit(limit)
        return await self._database.read(lambda connection: [session(row) for row in connection.execute(query)])

    async def delete_session(self, session_id: str, *, user_id: str) -> None:
        """Remove a session and all its rows; nothing happens when it is not there, NotFound for another user's."""

        def work(connection: Connection) -> None:
            take_turn(connection, user_id)  # before the row, as whoever begins or wakes another does
            mine = select(_S.user_id).where(_S.id == session_id).with_for_update()
            owner = connection.execute(mine).scalar_one_or_none()
            if owner is None:
                return
            if owner != user_id:
                raise no_such("session", session_id)
            remove_charges(self._database, connection, user_id, session_id)
            leave_holdings(connection, user_id, session_id)
            jobs = select(schema.jobs.c.id).where(schema.jobs.c.session_id == session_id)
            leave_results(connection, user_id, schema.jobs.c.session_id == session_id)
            connection.execute(delete(schema.events).where(or_(_E.stream_id == session_id, _E.stream_id.in_(jobs))))
            connection.execute(delete(schema.chunks).where(schema.chunks.c.job_id.in_(jobs)))
            # spelled out, not left to cascades: not every server of SQLite's dialect keeps foreign keys switched on
            for table in (schema.jobs, *schema.SESSION_TABLES):
                connection.execute(delete(table).where(table.c.session_id == session_id))
            connection.execute(delete(schema.sessions).where(_S.id == session_id))

        await self._database.write(work, lambda _: self._notifier.notify(session_id))

    async def owed(
        self, now: datetime, *, limit: int = 100, after: tuple[datetime, str] | None = None
    ) -> list[OwedWork]:
        """List work that nobody holds: sessions longest unchanged first, renders by turns of their users."""

        def work(connection: Connection) -> list[OwedWork]:
            renders = connection.execute(renders_in_turn(now).limit(limit))
            return [
                *sessions_owing(connection, now, limit, after),
                *(OwedWork(kind="job", **dict(row)) for row in renders.mappings()),
            ]

        return await self._database.read(work)

    async def find_command(self, session_id: str, key: str) -> CommandRecord | None:
        """Read the command that a key was used for."""
        table = schema.commands.c
        query = select(schema.commands).where(table.session_id == session_id, table.key == key)
        found = await self._database.records(CommandRecord, query)
        return found[0] if found else None
