"""The Store for one process, without a database: a folder of JSON, all of it in memory while it is open.

For the command line, for tests and for an agent that stands alone: nothing to install, and files that a person can
read. Fences, numbers, idempotent commands, notifications and errors are those of `SqlStore`; a second process is
refused with the name of the first. Every commit is synced to the disk before it is seen (`json_database`), and the log
survives what a kill or a power cut leaves of it (`json_log`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal, NoReturn, cast

from pydantic import JsonValue

from koda_ray.errors import Conflict, InvalidInput
from koda_ray.events import Envelope, NewEvent
from koda_ray.state.content import after_removal
from koda_ray.state.inbox import is_awake, superseded
from koda_ray.state.json_accounts import JsonAccounts, copy_assets, ensure_project, give_assets
from koda_ray.state.json_boxes import JsonBoxes
from koda_ray.state.json_canvases import JsonCanvases
from koda_ray.state.json_census import JsonCensus
from koda_ray.state.json_charges import JsonCharges, remove_charges
from koda_ray.state.json_commit import apply_batch
from koda_ray.state.json_content import JsonContent, may_begin
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_discarding import JsonDiscarding, labelled
from koda_ray.state.json_files import Files
from koda_ray.state.json_history import JsonHistory
from koda_ray.state.json_holdings import JsonHoldings, leave_holdings
from koda_ray.state.json_inbox import JsonInbox, activation_of, asked_of, count_awake, quota_used
from koda_ray.state.json_jobs import JsonJobs, leave_results, remove_job, renders_in_turn
from koda_ray.state.json_log import COMPACT_BYTES, Recovery
from koda_ray.state.json_parts import epoch_of, put_events
from koda_ray.state.json_rows import decode, encode, is_seen, moment, time_of, words
from koda_ray.state.json_shares import JsonShares
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.json_tiers import JsonTiers
from koda_ray.state.json_versions import JsonVersions
from koda_ray.state.lookout import Lookout
from koda_ray.state.notify import Notifier
from koda_ray.state.records import Batch, CommandRecord, OwedWork, SessionLabel, SessionQuota, SessionRecord
from koda_ray.state.refusals import Repeated, check_sessions, no_such, too_many_awake, used_for_another, was_deleted
from koda_ray.state.rows import body_hash, number
from koda_ray.tracing import trace_parent
from koda_ray.types import NodeState, now

__all__ = ["JSONStore"]

_CHILDREN = (
    "commands",
    "inbox",
    "messages",
    "tool_calls",
    "approvals",
    "beads",
    "checkpoints",
    "states",
    "heads",
    "versions",
    "shares",
    "share_comments",
)


class JSONStore(
    JsonHistory,
    JsonVersions,
    JsonShares,
    JsonCanvases,
    JsonDiscarding,
    JsonInbox,
    JsonJobs,
    JsonCharges,
    JsonAccounts,
    JsonBoxes,
    JsonContent,
    JsonHoldings,
    JsonTiers,
    JsonCensus,
):
    """A Store in a folder, for one process.

    Args:
        folder: Where; made when it is not there.
        files: How the operating system is called.
        compact_bytes: How large the log grows, at least, before it is turned into a snapshot.
    """

    def __init__(self, folder: str | Path, *, files: Files | None = None, compact_bytes: int = COMPACT_BYTES) -> None:
        path = Path(folder).expanduser().absolute()
        self._database = JsonDatabase(path, files or Files(), compact_bytes=compact_bytes)
        self._notifier = Notifier()
        self._lookout = Lookout(self.newest, self._notifier)

    def __repr__(self) -> str:
        return f"JSONStore({str(self._database.folder)!r})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            f"the JSON store {self._database.folder} is for one process and cannot be sent to another (a Ray actor is "
            "one): use SQLite, DATABASE_PROVIDER=sqlite, which takes many"
        )

    @property
    def database(self) -> JsonDatabase:
        """What it stands on, for transactions that no method of a store makes."""
        return self._database

    @property
    def notifier(self) -> Notifier:
        """Who is woken by commits."""
        return self._notifier

    @property
    def recovery(self) -> Recovery | None:
        """What was found when it was opened last."""
        return self._database.recovery

    @property
    def lookout(self) -> Lookout:
        """Who looks for commits of other processes, for everybody who follows something in this one."""
        return self._lookout

    async def open(self) -> None:
        """Take the folder's lock and read everything; see `JsonDatabase.open`."""
        await self._database.open()

    async def close(self) -> None:
        """Finish what is under way and give the folder up; may be called twice."""
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
        digest, session_id, trace = body_hash(body), state.session_id, trace_parent()

        def work(change: Transaction) -> tuple[SessionRecord, bool]:
            ensure_project(change, state.user_id, state.project_id, state.project_id)
            may_begin(change, state.user_id)
            same = (words(state.user_id), words(key))
            for row in change.tables.of("sessions"):
                if (row["user_id"], row["create_key"]) == same:
                    if row["create_hash"] != digest:
                        raise used_for_another("request", key)
                    if not is_seen(row):
                        raise was_deleted(key)
                    return decode(SessionRecord, row), False
            if change.tables.get("sessions", session_id) is not None:
                raise Conflict(f"session id {session_id} is taken; make another")
            at = now()
            record = SessionRecord(
                id=session_id,
                node_id=state.node_id,
                user_id=state.user_id,
                project_id=state.project_id,
                state=state,
                owes=state.owes,
                status="active",
                epoch=0,
                seq=1,
                host=None,
                lease_until=None,
                trace=trace,
                last_activity=at,
                created_at=at,
                updated_at=at,
            )
            change.put("sessions", encode(record, create_key=words(key), create_hash=digest))
            data: dict[str, JsonValue] = {
                "phase": state.phase,
                "owes": state.owes,
                "state": state.model_dump(mode="json", by_alias=True),
            }
            put_events(change, state.user_id, number(session_id, 1, 0, [NewEvent(type="state_change", data=data)]))
            if copies:
                copy_assets(change, copies, state)
            elif state.asset_ids:
                give_assets(change, state.asset_ids, user_id=state.user_id, session_id=session_id)
            if quota is not None:
                check_sessions(quota, quota_used(change.tables, state.user_id))
            return _session(change.tables, session_id), True

        return await after_removal(
            lambda: self._database.write(work, lambda result: self._notifier.notify(result[0].id))
        )

    async def quota_used(self, user_id: str) -> SessionQuota:
        """Count what a user has of all that `SessionQuota` limits."""
        return await self._database.read(lambda tables: quota_used(tables, user_id))

    async def admit_session(self, session_id: str, *, user_id: str, most: int, until: datetime) -> None:
        """Count a session among those that are awake, where there are fewer than a user may have."""

        def work(change: Transaction) -> None:
            row = change.tables.get("sessions", session_id)
            if row is None or row["user_id"] != words(user_id) or not is_seen(row):
                raise no_such("session", session_id)
            held = decode(SessionRecord, row)
            if is_awake(held.owes, held.lease_until):
                return
            if row["host"] is None:  # the lease of a process that fell silent must run out, whoever comes
                change.set("sessions", session_id, {"lease_until": moment(until)})
            counted = row["host"] is None or any(True for _ in change.tables.of("inbox", session_id))
            if count_awake(change.tables, user_id) + (not counted) > most:
                raise too_many_awake(most)

        await self._database.write(work)

    async def get_session(self, session_id: str, *, user_id: str | None = None) -> SessionRecord:
        """Read a row; NotFound when it is missing, closed, or another user's, and for its user when it is discarded."""

        def work(tables: Tables) -> SessionRecord:
            row = tables.get("sessions", session_id)
            if row is None or row["status"] == "closed":
                raise no_such("session", session_id)
            if user_id is not None and (row["user_id"] != words(user_id) or not is_seen(row)):
                raise no_such("session", session_id)
            return decode(SessionRecord, row)

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

        def work(tables: Tables) -> list[SessionRecord]:
            mine = [
                row
                for row in labelled(tables, user_id, pinned=pinned, group=group)
                if (discarded or is_seen(row)) and (before is None or str(row["id"]) < before)
            ]
            mine.sort(key=lambda row: str(row["id"]), reverse=True)
            return [decode(SessionRecord, row) for row in mine[:limit]]

        return await self._database.read(work)

    async def session_names(self, user_id: str, session_ids: Collection[str]) -> dict[str, str]:
        """Say what sessions are called, by id; see `Store.session_names`."""

        def work(tables: Tables) -> dict[str, str]:
            rows = {each: tables.get("sessions", words(each)) for each in session_ids}
            return {
                each: str(row.get("title") or cast("TableRow", row["state"])["prompt"])
                for each, row in rows.items()
                if row is not None and is_seen(row) and row["user_id"] == words(user_id)
            }

        return await self._database.read(work)

    async def label_session(self, session_id: str, *, user_id: str, label: SessionLabel) -> SessionRecord:
        """Change how a session stands in its user's lists."""

        def work(change: Transaction) -> SessionRecord:
            row = change.tables.get("sessions", session_id)
            if row is None or not is_seen(row) or row["user_id"] != words(user_id):
                raise no_such("session", session_id)
            fields: TableRow = {} if label.pinned is None else {"pinned": label.pinned}
            if label.title is not None:
                fields["title"] = words(label.title) or None
            change.set("sessions", session_id, fields)
            return _session(change.tables, session_id)

        return await self._database.write(work)

    async def close_unused(self, before: datetime, *, limit: int = 100) -> list[SessionRecord]:
        """Begin to delete sessions that were last used before a time; see `Store.close_unused`."""

        def work(change: Transaction) -> list[SessionRecord]:
            limit_at, at = moment(before), moment(now())
            asked = {str(row["session_id"]) for row in change.tables.everywhere("inbox")}
            unused = [
                row
                for row in change.tables.of("sessions")
                if row["owes"] is None and is_seen(row) and not row.get("pinned")
                if str(row["last_activity"]) < limit_at
                if (row["lease_until"] is None or str(row["lease_until"]) < at) and str(row["id"]) not in asked
            ]
            unused.sort(key=lambda row: (str(row["last_activity"]), str(row["id"])))
            for row in unused[:limit]:
                closed: TableRow = {"epoch": epoch_of(row) + 1, "status": "closed", "lease_until": None}
                change.set("sessions", str(row["id"]), {**closed, "updated_at": at})
            return [decode(SessionRecord, row) for row in unused[:limit]]

        return await self._database.write(work, self._tell)

    def _tell(self, closed: list[SessionRecord]) -> None:
        for row in closed:
            self._notifier.notify(row.id)

    async def activate(
        self, session_id: str, *, host: str, lease_until: datetime, activation: int | None = None
    ) -> SessionRecord:
        """Take the session: bump its epoch, which fences whoever had it."""

        def work(change: Transaction) -> SessionRecord:
            row = change.tables.get("sessions", session_id)
            if row is None or not is_seen(row):
                raise no_such("session", session_id)
            if activation is not None and activation_of(row) != activation:
                raise superseded(session_id, activation=activation, current=activation_of(row))
            taken: TableRow = {"epoch": epoch_of(row) + 1, "host": words(host), "lease_until": moment(lease_until)}
            change.set("sessions", session_id, {**taken, "status": "active"})
            return _session(change.tables, session_id)

        return await self._database.write(work)

    async def commit(self, session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
        """Apply a batch under the fence.

        A command that was applied before (same key, name and body) changes nothing again: the events that it led to
        then are returned.
        """
        try:
            return await self._database.write(
                lambda change: apply_batch(change, session_id, epoch, batch),
                lambda made: self._notifier.notify(session_id) if made else None,
            )
        except Repeated as repeated:
            return await self._led_to(session_id, repeated)

    async def release(self, session_id: str, epoch: int) -> None:
        """Give the lease up; a no-op when fenced."""

        def work(change: Transaction) -> None:
            row = change.tables.get("sessions", session_id)
            if row is not None and row["epoch"] == epoch and row["status"] != "closed":
                change.set("sessions", session_id, {"status": "suspended", "lease_until": None, "host": None})

        await self._database.write(work)

    async def close_session(self, session_id: str, *, user_id: str) -> SessionRecord:
        """Begin to delete a session: it is seen no more, and whoever held it is fenced; NotFound for another user's."""

        def work(change: Transaction) -> SessionRecord:
            row = change.tables.get("sessions", session_id)
            if row is None or row["user_id"] != words(user_id):
                raise no_such("session", session_id)
            closed: TableRow = {"epoch": epoch_of(row) + 1, "status": "closed", "lease_until": None}
            change.set("sessions", session_id, {**closed, "updated_at": moment(now())})
            return _session(change.tables, session_id)

        return await self._database.write(work, lambda _: self._notifier.notify(session_id))

    async def closed_sessions(self, *, limit: int = 100) -> list[SessionRecord]:
        """Read sessions whose deletion has begun and not ended, oldest first."""

        def work(tables: Tables) -> list[SessionRecord]:
            closed = [row for row in tables.of("sessions") if row["status"] == "closed"]
            closed.sort(key=lambda row: str(row["updated_at"]))
            return [decode(SessionRecord, row) for row in closed[:limit]]

        return await self._database.read(work)

    async def delete_session(self, session_id: str, *, user_id: str) -> None:
        """Remove a session and all its rows; nothing happens when it is not there, NotFound for another user's."""

        def work(change: Transaction) -> None:
            row = change.tables.get("sessions", session_id)
            if row is None:
                return
            if row["user_id"] != words(user_id):
                raise no_such("session", session_id)
            remove_charges(change, user_id, session_id)
            leave_holdings(change, user_id, session_id)
            for table in ("jobs", "sandboxes", "assets"):
                mine = [each for each in change.tables.of(table) if each["session_id"] == words(session_id)]
                if table == "jobs":
                    leave_results(change, mine)
                for item_id in [str(each["id"]) for each in mine]:
                    if table == "jobs":
                        remove_job(change, item_id)
                    else:
                        change.remove(table, item_id)
            for table in ("events", *_CHILDREN):
                change.drop(table, session_id)
            change.remove("sessions", session_id)

        await self._database.write(work, lambda _: self._notifier.notify(session_id))

    async def owed(
        self, now: datetime, *, limit: int = 100, after: tuple[datetime, str] | None = None
    ) -> list[OwedWork]:
        """List work that nobody holds: sessions longest unchanged first, renders by turns of their users."""
        at = moment(now)
        mark = ("", "") if after is None else (moment(after[0]), after[1])

        def is_unheld(row: TableRow) -> bool:
            return row["lease_until"] is None or str(row["lease_until"]) < at

        def work(tables: Tables) -> list[OwedWork]:
            sessions = [
                row for row in tables.of("sessions") if row["owes"] is not None and is_seen(row) and is_unheld(row)
            ]
            sessions += asked_of(tables, is_unheld)
            place = {str(row["id"]): (str(row["updated_at"]), str(row["id"])) for row in sessions}
            sessions.sort(key=lambda row: (place[str(row["id"])] <= mark, place[str(row["id"])]))
            return [*_owed("session", sessions[:limit]), *_owed("job", renders_in_turn(tables, at)[:limit])]

        return await self._database.read(work)

    async def find_command(self, session_id: str, key: str) -> CommandRecord | None:
        """Read the command that a key was used for."""

        def work(tables: Tables) -> CommandRecord | None:
            row = tables.get("commands", key, session_id)
            return None if row is None else decode(CommandRecord, row)

        return await self._database.read(work)


def _session(tables: Tables, session_id: str) -> SessionRecord:
    row = tables.get("sessions", session_id)
    assert row is not None
    return decode(SessionRecord, row)


def _owed(kind: Literal["session", "job"], rows: list[TableRow]) -> list[OwedWork]:
    return [
        OwedWork(
            kind=kind,
            id=str(row["id"]),
            user_id=str(row["user_id"]),
            epoch=epoch_of(row),
            updated_at=time_of(row["updated_at"]),
        )
        for row in rows
    ]
