"""Links to videos on the SQL database; see `shares`."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update

from koda_ray.state import schema
from koda_ray.state.database import Database
from koda_ray.state.refusals import no_such
from koda_ray.state.rows import columns, key_hash, record
from koda_ray.state.shares import ShareComment, ShareRecord, too_many_comments, too_many_shares

__all__ = ["SqlShares"]

_H = schema.shares.c
_C = schema.share_comments.c
_S = schema.sessions.c


class SqlShares:
    """The part of `SqlStore` that keeps links and what is said with them."""

    _database: Database

    async def create_share(self, share: ShareRecord, *, most: int) -> ShareRecord:
        """Insert a link; see `ShareStore.create_share`."""
        # the session's row is the turn: of two at once, one counts what the other made
        mine = select(_S.id).where(_S.id == share.session_id, _S.user_id == share.user_id, schema.IS_SEEN)
        there = select(func.count()).select_from(schema.shares).where(_H.session_id == share.session_id)
        made = select(schema.shares).where(_H.session_id == share.session_id, _H.id == share.id)

        def work(connection: Connection) -> ShareRecord:
            if connection.execute(mine.with_for_update(key_share=True)).first() is None:
                raise no_such("session", share.session_id)
            if (before := connection.execute(made).first()) is not None:
                return record(ShareRecord, before)
            if connection.execute(there).scalar_one() >= most:
                raise too_many_shares(most)
            connection.execute(insert(schema.shares).values(columns(share)))
            return share

        return await self._database.write(work)

    async def shares(self, session_id: str) -> list[ShareRecord]:
        """Read a session's links, newest first."""
        query = select(schema.shares).where(_H.session_id == session_id)
        return await self._database.records(ShareRecord, query.order_by(_H.created_at.desc(), _H.id.desc()))

    async def share(self, session_id: str, share_id: str) -> ShareRecord:
        """Read one; NotFound where there is none."""
        query = select(schema.shares).where(_H.session_id == session_id, _H.id == share_id)
        found = await self._database.records(ShareRecord, query)
        if not found:
            raise no_such("share", share_id)
        return found[0]

    async def share_for(self, token: str, *, at: datetime) -> ShareRecord | None:
        """Return the link that a token is of; see `ShareStore.share_for`."""
        query = select(schema.shares).join(schema.sessions, _S.id == _H.session_id)
        query = query.where(_H.token_hash == key_hash(token), schema.IS_SEEN, _lasts(at))
        found = await self._database.records(ShareRecord, query)
        return found[0] if found else None

    async def shared_jobs(self, user_id: str, *, at: datetime) -> set[str]:
        """Return the jobs whose videos a user's links show."""
        query = select(_H.job_id).where(_H.user_id == user_id, _lasts(at))
        return await self._database.read(lambda connection: set(connection.execute(query).scalars()))

    async def remove_share(self, session_id: str, share_id: str) -> None:
        """Remove a link with its comments; NotFound where there is none."""
        gone = delete(schema.shares).where(_H.session_id == session_id, _H.id == share_id).returning(_H.id)
        said = delete(schema.share_comments).where(_C.session_id == session_id, _C.share_id == share_id)

        def work(connection: Connection) -> None:
            if connection.execute(gone).first() is None:
                raise no_such("share", share_id)
            connection.execute(said)

        await self._database.write(work)

    async def add_comment(self, comment: ShareComment, *, most: int) -> ShareComment:
        """Insert a comment; see `ShareStore.add_comment`."""
        mine = (_H.session_id == comment.session_id, _H.id == comment.share_id)
        # before the link's row, as whoever deletes the session does
        session = select(_S.id).where(_S.id == comment.session_id).with_for_update(read=True, key_share=True)
        # the link's row is the turn: of two of one id at once, one finds what the other made
        link = select(_H.id).where(*mine).with_for_update(key_share=True)
        made = select(schema.share_comments).where(_C.session_id == comment.session_id, _C.id == comment.id)
        counted = update(schema.shares).where(*mine, _H.commented < most).values(commented=_H.commented + 1)

        def work(connection: Connection) -> ShareComment:
            connection.execute(session)
            if connection.execute(link).first() is None:
                raise no_such("share", comment.share_id)
            if (before := connection.execute(made).first()) is not None:
                return record(ShareComment, before)
            if connection.execute(counted.returning(_H.id)).first() is None:
                raise too_many_comments(most)
            connection.execute(insert(schema.share_comments).values(columns(comment)))
            return comment

        return await self._database.write(work)

    async def share_comment(self, session_id: str, comment_id: str) -> ShareComment | None:
        """Read a comment; None where there is none."""
        query = select(schema.share_comments).where(_C.session_id == session_id, _C.id == comment_id)
        found = await self._database.records(ShareComment, query)
        return found[0] if found else None

    async def share_comments(self, session_id: str, share_id: str) -> list[ShareComment]:
        """Read what was said with a link, oldest first."""
        query = select(schema.share_comments).where(_C.session_id == session_id, _C.share_id == share_id)
        return await self._database.records(ShareComment, query.order_by(_C.created_at, _C.id))


def _lasts(at: datetime) -> ColumnElement[bool]:
    return or_(_H.expires_at.is_(None), _H.expires_at > at)
