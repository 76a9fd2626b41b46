"""Counting everything on the SQL database; see `census`."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from koda_ray.budgets import Amounts
from koda_ray.state import schema
from koda_ray.state.census import MONTH, Census
from koda_ray.state.database import Database
from koda_ray.state.records import OWED_STATUSES
from koda_ray.state.sql_inbox import count_asked

__all__ = ["SqlCensus"]

_A = schema.accounts.c
_B = schema.sandboxes.c
_J = schema.jobs.c
_S = schema.sessions.c


class SqlCensus:
    """The part of `SqlStore` that counts."""

    _database: Database

    async def census(self, at: datetime) -> Census:
        """Count everything."""

        def work(connection: Connection) -> Census:
            there = schema.IS_SEEN
            held = func.coalesce(_S.lease_until >= at, False)  # None is nobody
            unheld = and_(there, _S.owes.is_not(None), ~held)
            sessions = connection.execute(
                select(
                    _sum(and_(_S.status != "closed", held)),
                    _sum(and_(there, ~held)),
                    _sum(and_(there, _S.owes.is_not(None))),
                    _sum(_S.status == "closed"),
                    _sum(unheld),
                    func.min(case((unheld, _S.updated_at))),
                )
            ).one()
            own = and_(_J.session_id.is_(None), or_(_J.lease_until.is_(None), _J.lease_until < at))
            jobs = connection.execute(
                select(
                    _sum(_J.status == "queued"),
                    _sum(_J.status == "running"),
                    _sum(own),
                    func.min(case((own, _J.updated_at))),
                ).where(_J.status.in_(OWED_STATUSES))
            ).one()
            boxes = select(func.count()).select_from(schema.sandboxes).where(_B.status != "destroyed")
            month = f"{MONTH}{at.astimezone(UTC):%Y-%m}"
            accounts = connection.execute(select(_A.id, _A.spent).where(_A.id.startswith(MONTH))).all()
            asked, asked_since = count_asked(connection, at)
            since = [moment for moment in (sessions[5], jobs[3], asked_since) if moment is not None]
            return Census(
                awake=int(sessions[0]),
                asleep=int(sessions[1]),
                owing=int(sessions[2]),
                closing=int(sessions[3]),
                unheld=int(sessions[4]) + int(jobs[2]) + asked,
                unheld_since=min(since, default=None),
                queued=int(jobs[0]),
                rendering=int(jobs[1]),
                sandboxes=connection.execute(boxes).scalar_one(),
                spent_in_month=sum((Amounts.of(spent) for name, spent in accounts if name == month), Amounts()),
                spent=sum((Amounts.of(spent) for _, spent in accounts), Amounts()),
            )

        return await self._database.read(work)


def _sum(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)
