"""Commands that wait, and the names of sessions' processes, in a folder of JSON; see `inbox`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from typing import cast

from koda_ray.state.inbox import Judge, check_waiting, final_jobs, final_video_s, is_awake, new_video_s, owed_after
from koda_ray.state.json_accounts import count_stored, give_pictures
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_parts import epoch_of
from koda_ray.state.json_rows import decode, encode, is_seen, moment, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.records import (
    OWED_STATUSES,
    CommandRecord,
    RenderQuota,
    SessionQuota,
    SessionRecord,
    WholeSession,
)
from koda_ray.state.refusals import check_renders, no_such, replaced, too_many_awake, used_for_another
from koda_ray.state.rows import body_hash
from koda_ray.types import now

__all__ = ["JsonInbox", "activation_of", "asked_of", "count_awake", "queued_video_s", "quota_used", "take_out"]


class JsonInbox:
    """The part of `JSONStore` that keeps what waits for sessions."""

    _database: JsonDatabase

    async def receive(
        self,
        command: CommandRecord,
        judge: Judge,
        *,
        pictures: Collection[str] = (),
        most_awake: int | None = None,
        most_video_s: float | None = None,
    ) -> tuple[CommandRecord, bool]:
        """Record a command; see `InboxStore.receive`."""
        digest, session_id = body_hash(command.body), command.session_id

        def work(change: Transaction) -> tuple[CommandRecord, bool]:
            row = change.tables.get("sessions", session_id)
            if row is None or not is_seen(row) or row["user_id"] != words(command.user_id):
                raise no_such("session", session_id)
            for table, waits in (("commands", False), ("inbox", True)):
                there = change.tables.get(table, command.key, session_id)
                if there is not None:
                    if (there["name"], there["body_hash"]) != (command.name, digest):
                        raise used_for_another("command", command.key)
                    return decode(CommandRecord, there), waits
            waiting = _waiting(change.tables, session_id)
            check_waiting(command, waiting)
            found = decode(SessionRecord, row)
            made = replace(command, result=judge(found, waiting))
            video_s = new_video_s(found, waiting, made.result)
            if most_video_s is not None and video_s > 0:
                there_s = queued_video_s(change.tables, command.user_id, without=session_id)
                check_renders(RenderQuota(video_s=most_video_s), RenderQuota(video_s=there_s + video_s))
            number = max((cast("int", each["number"]) for each in change.tables.of("inbox", session_id)), default=0) + 1
            change.put("inbox", encode(made, number=number, body_hash=digest))
            give_pictures(change, pictures, user_id=command.user_id, session_id=session_id)
            change.set("sessions", session_id, {"last_activity": moment(now())})
            if row["host"] is None:  # what waits keeps the session's place from here on
                change.set("sessions", session_id, {"lease_until": None})
            if command.trace is not None:
                change.set("sessions", session_id, {"trace": command.trace})
            wakes = not waiting and not is_awake(found.owes, found.lease_until)
            if most_awake is not None and wakes and count_awake(change.tables, command.user_id) > most_awake:
                raise too_many_awake(most_awake)
            return made, True

        return await self._database.write(work)

    async def inbox(self, session_id: str) -> list[CommandRecord]:
        """Read the commands that wait, in the order in which they were recorded."""
        return await self._database.read(lambda tables: _waiting(tables, session_id))

    async def whole_session(self, session_id: str, *, user_id: str) -> WholeSession:
        """Read a user's session with what waits for it and which of its finals are gone."""

        def work(tables: Tables) -> WholeSession:
            row = tables.get("sessions", session_id)
            if row is None or not is_seen(row) or row["user_id"] != words(user_id):
                raise no_such("session", session_id)
            found = decode(SessionRecord, row)
            jobs = {each: tables.get("jobs", each) for each in final_jobs(found.state)}
            lost = (each for each, job in jobs.items() if job is None or job["user_id"] != words(user_id))
            return WholeSession(row=found, waiting=tuple(_waiting(tables, session_id)), lost=frozenset(lost))

        return await self._database.read(work)

    async def renew(self, session_id: str, epoch: int, *, lease_until: datetime) -> bool:
        """Hold a session until then, under the fence; says whether a command waits for it."""

        def work(change: Transaction) -> bool:
            row = change.tables.get("sessions", session_id)
            if row is None or row["epoch"] != epoch:
                raise replaced("session", session_id, epoch=epoch, current=None if row is None else epoch_of(row))
            change.set("sessions", session_id, {"lease_until": moment(lease_until)})
            return any(True for _ in change.tables.of("inbox", session_id))

        return await self._database.write(work)

    async def supersede(self, session_id: str, activation: int, *, at: datetime) -> bool:
        """Have a session's process sought under the next name; see `InboxStore.supersede`."""

        def work(change: Transaction) -> bool:
            row = change.tables.get("sessions", session_id)
            if row is None or row["status"] == "closed" or activation_of(row) != activation or row["host"] is None:
                return False
            if row["lease_until"] is None or str(row["lease_until"]) >= moment(at):
                return False
            given_up: TableRow = {
                "activation": activation + 1,
                "epoch": epoch_of(row) + 1,
                "host": None,
                "lease_until": None,
            }
            change.set("sessions", session_id, given_up)
            return True

        return await self._database.write(work)


def count_awake(tables: Tables, user_id: str) -> int:
    """Count a user's sessions that are held, also discarded ones, or that owe work or are asked something."""
    mine, at = words(user_id), moment(now())
    asked = {str(row["session_id"]) for row in tables.everywhere("inbox")}
    return sum(
        row["user_id"] == mine
        and row["status"] != "closed"
        and (
            str(row["lease_until"] or "") > at
            or (is_seen(row) and (row["owes"] is not None or str(row["id"]) in asked))
        )
        for row in tables.of("sessions")
    )


def queued_video_s(tables: Tables, user_id: str, *, without: str | None = None) -> float:
    """Add up a user's video that waits or is under way: jobs, and finals that sessions owe or are asked for.

    Args:
        tables: Where.
        user_id: Whose.
        without: A session whose final video is not counted.
    """
    mine = words(user_id)
    last: dict[str, TableRow] = {}
    for row in sorted(tables.everywhere("inbox"), key=lambda row: cast("int", row["number"])):
        last[str(row["session_id"])] = row
    counted: dict[str | None, float] = {}
    for row in tables.of("sessions"):
        if row["user_id"] == mine and is_seen(row):
            session_id, owes = str(row["id"]), cast("str | None", row["owes"])
            if session_id in last:
                owes = owed_after(owes, decode(CommandRecord, last[session_id]).result)
            if owes == "render_final":
                preview = decode(SessionRecord, row).state.preview
                counted[session_id] = final_video_s(None if preview is None else preview.duration)
    begun: dict[str | None, float] = {}
    for row in tables.of("jobs"):
        if row["user_id"] == mine and row["status"] in OWED_STATUSES:
            final_of = cast("str | None", row["session_id"]) if row["kind"] == "final" else None
            begun[final_of] = begun.get(final_of, 0.0) + cast("float", row.get("video_s", 0.0))
    counted |= begun  # what is begun counts as its job says
    return sum(seconds for final_of, seconds in counted.items() if final_of is None or final_of != without)


def quota_used(tables: Tables, user_id: str) -> SessionQuota:
    """Count what a user has of sessions."""
    mine = words(user_id)
    return SessionQuota(
        sessions=sum(row["user_id"] == mine and is_seen(row) for row in tables.of("sessions")),
        awake=count_awake(tables, user_id),
        stored_bytes=count_stored(tables, user_id),
    )


def take_out(change: Transaction, session_id: str, key: str) -> None:
    """Take a command out: it is applied, or refused, in the same transaction."""
    if change.tables.get("inbox", key, session_id) is not None:
        change.remove("inbox", key, owner=session_id)


def asked_of(tables: Tables, is_unheld: Callable[[TableRow], bool]) -> list[TableRow]:
    """Find sessions that nobody holds and that owe nothing but to take what waits."""
    ids = dict.fromkeys(str(row["session_id"]) for row in tables.everywhere("inbox"))
    rows = [row for each in ids if (row := tables.get("sessions", each)) is not None]
    return [row for row in rows if row["owes"] is None and is_seen(row) and is_unheld(row)]


def activation_of(row: TableRow) -> int:
    """Read under which number a session's process is sought; rows from before there were any have the first."""
    return cast("int", row.get("activation", 0))


def _waiting(tables: Tables, session_id: str) -> list[CommandRecord]:
    rows = sorted(tables.of("inbox", session_id), key=lambda row: cast("int", row["number"]))
    return [decode(CommandRecord, row) for row in rows]
