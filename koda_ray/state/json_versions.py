"""Versions in a folder of JSON; see `versions`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from koda_ray.events import NewEvent
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_rows import decode, encode, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.records import CheckpointRecord
from koda_ray.state.refusals import no_such
from koda_ray.state.versions import (
    VersionLabel,
    VersionPosition,
    VersionRecord,
    finished_in,
    shown_in,
    version_of,
)
from koda_ray.types import NodeState, now

__all__ = ["JsonVersions", "put_version", "versions_in"]


class JsonVersions:
    """The part of `JSONStore` that keeps versions."""

    _database: JsonDatabase

    async def versions(
        self, session_id: str, *, limit: int, before: int | None = None, job_id: str | None = None
    ) -> list[VersionRecord]:
        """Read versions, newest first."""

        def work(tables: Tables) -> list[VersionRecord]:
            newest = reversed(versions_in(tables, session_id))
            found = (each for each in newest if before is None or each.number < before)
            return list(islice((each for each in found if job_id is None or each.job_id == job_id), limit))

        return await self._database.read(work)

    async def version(self, session_id: str, version_id: str) -> VersionRecord:
        """Read one; NotFound where there is none."""
        return await self._database.read(lambda tables: decode(VersionRecord, _row(tables, session_id, version_id)))

    async def label_version(self, session_id: str, version_id: str, label: VersionLabel) -> VersionRecord:
        """Change what a person makes of a version; NotFound where there is none."""

        def work(change: Transaction) -> VersionRecord:
            _row(change.tables, session_id, version_id)
            said: TableRow = {} if label.note is None else {"note": words(label.note)}
            said |= {} if label.starred is None else {"starred": label.starred}
            if said:
                change.set("versions", version_id, said, owner=session_id)
            return decode(VersionRecord, _row(change.tables, session_id, version_id))

        return await self._database.write(work)

    async def checkpoint(self, session_id: str, checkpoint_id: str) -> CheckpointRecord:
        """Read a checkpoint's pointer, whether it counts now or not; NotFound where there is none."""

        def work(tables: Tables) -> CheckpointRecord:
            row = tables.get("checkpoints", checkpoint_id, session_id)
            if row is None:
                raise no_such("checkpoint", checkpoint_id)
            return decode(CheckpointRecord, row)

        return await self._database.read(work)


def versions_in(tables: Tables, session_id: str) -> list[VersionRecord]:
    """Read a session's versions, oldest first."""
    found = [decode(VersionRecord, row) for row in tables.of("versions", session_id)]
    return sorted(found, key=lambda each: each.number)


def put_version(
    change: Transaction, state: NodeState | None, events: Sequence[NewEvent], *, rev: int, seq: int
) -> bool:
    """Keep the version that a commit brings, or the final video of one; return whether its state is to be kept too."""
    finished, preview = finished_in(state), shown_in(state, events)
    if state is None or (finished is None and preview is None):
        return False
    there = versions_in(change.tables, state.session_id)
    if finished is not None:
        for each in there:
            if each.job_id == finished[0] and each.final_job_id != finished[1]:
                change.set("versions", each.id, {"final_job_id": finished[1]}, owner=state.session_id)
    if preview is None:
        return False
    position = VersionPosition(
        number=max((each.number for each in there), default=0) + 1,
        rev=rev,
        seq=seq,
        changes_before=next((each.changes for each in reversed(there) if each.live), 0),
        at=now(),
    )
    if all(each.job_id != preview.job_id for each in there):
        change.put("versions", encode(version_of(state, preview, position)))
    return True


def _row(tables: Tables, session_id: str, version_id: str) -> TableRow:
    row = tables.get("versions", version_id, session_id)
    if row is None:
        raise no_such("version", version_id)
    return row
