"""Links to videos in a folder of JSON; see `shares`."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_rows import decode, encode, is_seen, moment, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.refusals import no_such
from koda_ray.state.rows import key_hash
from koda_ray.state.shares import ShareComment, ShareRecord, too_many_comments, too_many_shares

__all__ = ["JsonShares"]


class JsonShares:
    """The part of `JSONStore` that keeps links and what is said with them."""

    _database: JsonDatabase

    async def create_share(self, share: ShareRecord, *, most: int) -> ShareRecord:
        """Insert a link; see `ShareStore.create_share`."""

        def work(change: Transaction) -> ShareRecord:
            row = change.tables.get("sessions", share.session_id)
            if row is None or row["user_id"] != words(share.user_id) or not is_seen(row):
                raise no_such("session", share.session_id)
            if (before := change.tables.get("shares", share.id, share.session_id)) is not None:
                return decode(ShareRecord, before)
            if sum(1 for _ in change.tables.of("shares", share.session_id)) >= most:
                raise too_many_shares(most)
            change.put("shares", encode(share))
            return share

        return await self._database.write(work)

    async def shares(self, session_id: str) -> list[ShareRecord]:
        """Read a session's links, newest first."""

        def work(tables: Tables) -> list[ShareRecord]:
            found = [decode(ShareRecord, row) for row in tables.of("shares", session_id)]
            return sorted(found, key=lambda each: (each.created_at, each.id), reverse=True)

        return await self._database.read(work)

    async def share(self, session_id: str, share_id: str) -> ShareRecord:
        """Read one; NotFound where there is none."""
        return await self._database.read(lambda tables: decode(ShareRecord, _row(tables, session_id, share_id)))

    async def share_for(self, token: str, *, at: datetime) -> ShareRecord | None:
        """Return the link that a token is of; see `ShareStore.share_for`."""
        sought, until = key_hash(token), moment(at)

        def work(tables: Tables) -> ShareRecord | None:
            for row in tables.everywhere("shares"):
                if row["token_hash"] == sought and _lasts(row, until):
                    session = tables.get("sessions", str(row["session_id"]))
                    return decode(ShareRecord, row) if session is not None and is_seen(session) else None
            return None

        return await self._database.read(work)

    async def shared_jobs(self, user_id: str, *, at: datetime) -> set[str]:
        """Return the jobs whose videos a user's links show."""
        mine, until = words(user_id), moment(at)

        def work(tables: Tables) -> set[str]:
            rows = (row for row in tables.everywhere("shares") if row["user_id"] == mine)
            return {str(row["job_id"]) for row in rows if _lasts(row, until)}

        return await self._database.read(work)

    async def remove_share(self, session_id: str, share_id: str) -> None:
        """Remove a link with its comments; NotFound where there is none."""

        def work(change: Transaction) -> None:
            _row(change.tables, session_id, share_id)
            for said in _said(change.tables, session_id, share_id):
                change.remove("share_comments", str(said["id"]), session_id)
            change.remove("shares", share_id, session_id)

        await self._database.write(work)

    async def add_comment(self, comment: ShareComment, *, most: int) -> ShareComment:
        """Insert a comment; see `ShareStore.add_comment`."""

        def work(change: Transaction) -> ShareComment:
            commented = cast("int", _row(change.tables, comment.session_id, comment.share_id)["commented"])
            if (before := change.tables.get("share_comments", comment.id, comment.session_id)) is not None:
                return decode(ShareComment, before)
            if commented >= most:
                raise too_many_comments(most)
            change.set("shares", comment.share_id, {"commented": commented + 1}, owner=comment.session_id)
            change.put("share_comments", encode(comment))
            return comment

        return await self._database.write(work)

    async def share_comment(self, session_id: str, comment_id: str) -> ShareComment | None:
        """Read a comment; None where there is none."""

        def work(tables: Tables) -> ShareComment | None:
            row = tables.get("share_comments", comment_id, session_id)
            return None if row is None else decode(ShareComment, row)

        return await self._database.read(work)

    async def share_comments(self, session_id: str, share_id: str) -> list[ShareComment]:
        """Read what was said with a link, oldest first."""

        def work(tables: Tables) -> list[ShareComment]:
            found = [decode(ShareComment, row) for row in _said(tables, session_id, share_id)]
            return sorted(found, key=lambda each: (each.created_at, each.id))

        return await self._database.read(work)


def _row(tables: Tables, session_id: str, share_id: str) -> TableRow:
    row = tables.get("shares", share_id, session_id)
    if row is None:
        raise no_such("share", share_id)
    return row


def _said(tables: Tables, session_id: str, share_id: str) -> list[TableRow]:
    return [row for row in tables.of("share_comments", session_id) if row["share_id"] == words(share_id)]


def _lasts(row: TableRow, at: str) -> bool:
    return row["expires_at"] is None or str(row["expires_at"]) > at
