"""Versions on the SQL database; see `versions`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select, update

from koda_ray.events import NewEvent
from koda_ray.state import schema
from koda_ray.state.database import Database
from koda_ray.state.records import CheckpointRecord
from koda_ray.state.refusals import no_such
from koda_ray.state.rows import columns, record
from koda_ray.state.versions import (
    VersionLabel,
    VersionPosition,
    VersionRecord,
    finished_in,
    shown_in,
    version_of,
)
from koda_ray.types import NodeState, now

__all__ = ["SqlVersions", "put_version"]

_V = schema.versions.c


class SqlVersions:
    """The part of `SqlStore` that keeps versions."""

    _database: Database

    async def versions(
        self, session_id: str, *, limit: int, before: int | None = None, job_id: str | None = None
    ) -> list[VersionRecord]:
        """Read versions, newest first."""
        query = select(schema.versions).where(_V.session_id == session_id)
        if before is not None:
            query = query.where(_V.number < before)
        if job_id is not None:
            query = query.where(_V.job_id == job_id)
        return await self._database.records(VersionRecord, query.order_by(_V.number.desc(), _V.id).limit(limit))

    async def version(self, session_id: str, version_id: str) -> VersionRecord:
        """Read one; NotFound where there is none."""
        query = select(schema.versions).where(_V.session_id == session_id, _V.id == version_id)
        found = await self._database.records(VersionRecord, query)
        if not found:
            raise no_such("version", version_id)
        return found[0]

    async def label_version(self, session_id: str, version_id: str, label: VersionLabel) -> VersionRecord:
        """Change what a person makes of a version; NotFound where there is none."""
        said = {name: value for name in ("note", "starred") if (value := getattr(label, name)) is not None}
        if not said:
            return await self.version(session_id, version_id)
        mine = (_V.session_id == session_id, _V.id == version_id)
        statement = update(schema.versions).where(*mine).values(said).returning(schema.versions)
        row = await self._database.write(lambda connection: connection.execute(statement).one_or_none())
        if row is None:
            raise no_such("version", version_id)
        return record(VersionRecord, row)

    async def checkpoint(self, session_id: str, checkpoint_id: str) -> CheckpointRecord:
        """Read a checkpoint's pointer, whether it counts now or not; NotFound where there is none."""
        table = schema.checkpoints.c
        query = select(schema.checkpoints).where(table.session_id == session_id, table.id == checkpoint_id)
        found = await self._database.records(CheckpointRecord, query)
        if not found:
            raise no_such("checkpoint", checkpoint_id)
        return found[0]


def put_version(
    database: Database,
    connection: Connection,
    state: NodeState | None,
    events: Sequence[NewEvent],
    *,
    rev: int,
    seq: int,
) -> bool:
    """Keep the version that a commit brings, or the final video of one; return whether its state is to be kept too."""
    finished = finished_in(state)
    if state is not None and finished is not None:
        preview_job, final_job = finished
        mine = (_V.session_id == state.session_id, _V.job_id == preview_job)
        other = _V.final_job_id.is_distinct_from(final_job)  # each commit of a finished session says it again
        connection.execute(update(schema.versions).where(*mine, other).values(final_job_id=final_job))
    preview = shown_in(state, events)
    if state is None or preview is None:
        return False
    mine = _V.session_id == state.session_id
    number = connection.execute(select(func.max(_V.number)).where(mine)).scalar_one()
    newest = select(_V.changes).where(mine, _V.live).order_by(_V.number.desc()).limit(1)
    position = VersionPosition(
        number=(number or 0) + 1,
        rev=rev,
        seq=seq,
        changes_before=connection.execute(newest).scalar_one_or_none() or 0,
        at=now(),
    )
    made = columns(version_of(state, preview, position))
    connection.execute(database.insert(schema.versions).values(made).on_conflict_do_nothing())
    return True
