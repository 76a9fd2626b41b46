"""One commit to a session in a folder of JSON: the fence, then everything of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from koda_ray.events import Envelope
from koda_ray.state.boxes import SandboxRecord
from koda_ray.state.json_charges import enter_charges
from koda_ray.state.json_inbox import take_out
from koda_ray.state.json_jobs import put_chunks, put_job
from koda_ray.state.json_parts import epoch_of, put_events
from koda_ray.state.json_rows import encode, moment, state_row
from koda_ray.state.json_tables import TableRow, Transaction
from koda_ray.state.json_versions import put_version
from koda_ray.state.records import (
    ApprovalRecord,
    Batch,
    BeadRecord,
    CheckpointRecord,
    CommandRecord,
    MessageRecord,
    ToolCallRecord,
)
from koda_ray.state.refusals import Repeated, belongs, replaced, used_for_another
from koda_ray.state.rows import body_hash, number
from koda_ray.types import now

__all__ = ["apply_batch", "put_command", "save_state"]

_Part: TypeAlias = MessageRecord | ToolCallRecord | ApprovalRecord | BeadRecord | CheckpointRecord | SandboxRecord

_ORDERED = frozenset({"tool_calls", "approvals"})
_POINTS = frozenset({"messages", "checkpoints"})


def apply_batch(change: Transaction, session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
    """Apply a batch; return its events as numbered. Raises as `Store.commit`, and Repeated."""
    row = change.tables.get("sessions", session_id)
    if row is None or row["epoch"] != epoch:
        raise replaced("session", session_id, epoch=epoch, current=None if row is None else epoch_of(row))
    user_id, at, told = str(row["user_id"]), moment(now()), batch.events
    if batch.charges:
        told = [*told, *enter_charges(change, batch.charges, work_id=session_id, user_id=user_id, epoch=epoch)]
    seq = cast("int", row["seq"]) + len(told)
    rev = cast("int", row.get("rev", 0)) + 1
    if batch.messages or batch.checkpoint is not None:  # somebody may come back to what was until now
        save_state(change, session_id)
    fields: TableRow = {"seq": seq, "rev": rev}
    if batch.state is not None:
        if batch.state.session_id != session_id:
            raise ValueError(f"state of session {batch.state.session_id} in a commit to {session_id}")
        fields |= {"state": state_row(batch.state), "owes": batch.state.owes, "updated_at": at, "state_rev": rev}
    if batch.status is not None:
        fields["status"] = batch.status
    if batch.touch:
        fields["last_activity"] = at
    change.set("sessions", session_id, fields)
    made = number(session_id, seq, epoch, told)
    if batch.command is not None:
        put_command(change, batch.command, session_id, user_id, seq, len(made))
    if batch.refused is not None:
        take_out(change, session_id, batch.refused)
    parts: tuple[tuple[str, Sequence[_Part]], ...] = (
        ("messages", batch.messages),
        ("tool_calls", batch.tool_calls),
        ("approvals", batch.approvals),
        ("beads", batch.beads),
        ("checkpoints", [batch.checkpoint] if batch.checkpoint is not None else []),
        ("sandboxes", batch.sandboxes),
    )
    for table, records in parts:
        for position, item in enumerate(records):
            belongs(item, session_id, user_id)
            _put_part(change, table, item, position, {"rev": rev, "seq": seq - len(made)})
    for job in batch.jobs:
        belongs(job, session_id, user_id)
        put_job(change, job)
    put_chunks(change, batch.chunks, user_id=user_id)
    if put_version(change, batch.state, batch.events, rev=rev, seq=seq):
        save_state(change, session_id)
    put_events(change, user_id, made)
    return made


def save_state(change: Transaction, session_id: str) -> None:
    """Keep the present state as what the session was until now, once."""
    row = change.tables.get("sessions", session_id)
    assert row is not None
    rev = cast("int", row.get("state_rev", 0))
    if change.tables.get("states", rev, session_id) is None:
        saved: TableRow = {"session_id": row["id"], "rev": rev, "user_id": row["user_id"], "state": row["state"]}
        change.put("states", saved)


def _put_part(change: Transaction, table: str, item: _Part, position: int, placed: TableRow) -> None:
    row = encode(item)
    if table in _POINTS:
        there = change.tables.get(table, item.id, item.session_id) or placed
        row |= {name: there[name] for name in ("rev", "seq", "live") if name in there}
    if table in _ORDERED:
        there = change.tables.get(table, item.id, item.session_id)
        # the first place in a list stays: an update must not move a call behind those that started after it
        row["ordinal"] = position if there is None else there["ordinal"]
    if table == "sandboxes" and (there := change.tables.get(table, item.id)) is not None:
        row |= {name: there[name] for name in ("session_id", "user_id")}
    change.put(table, row)


def put_command(
    change: Transaction, command: CommandRecord, session_id: str, user_id: str, seq: int, count: int
) -> None:
    """Insert a command that leads to the ``count`` events up to ``seq``, and waits no longer.

    Raises Repeated and Conflict.
    """
    belongs(command, session_id, user_id)
    digest = body_hash(command.body)
    there = change.tables.get("commands", command.key, session_id)
    if there is None:
        change.put("commands", encode(command, body_hash=digest, first_seq=seq - count + 1, last_seq=seq))
        take_out(change, session_id, command.key)
        return
    if (there["name"], there["body_hash"]) != (command.name, digest):
        raise used_for_another("command", command.key)
    raise Repeated(cast("int", there["first_seq"]), cast("int", there["last_seq"]))
