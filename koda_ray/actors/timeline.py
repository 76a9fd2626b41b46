"""Going back in a session, and going another way from there: from its past to what it becomes.

Messages, files, plan, todos, calls, approvals and the video shown are one moment's. What was under way then is not
taken up by itself: the session rests, at what a person can act on next. All of it is pure but `fork_session`, which has
a store do it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Literal, TypeVar, cast

from pydantic import JsonValue

from koda_ray import phases
from koda_ray.actors.core import bead_of, payload_of
from koda_ray.agent.approvals import announced
from koda_ray.agent.delegation import subagents_among
from koda_ray.agent.rewinding import approval_events, open_at, rewound, settled_at, subagents_at
from koda_ray.budgets import Amounts, left_of
from koda_ray.commands import Effect, Emit, PutBack
from koda_ray.events import NewEvent
from koda_ray.pointing import pictures_named
from koda_ray.state.past import Change, ForkedSession, Past
from koda_ray.state.records import (
    ApprovalRecord,
    Batch,
    BeadRecord,
    CommandRecord,
    JobRecord,
    MessageRecord,
    SessionQuota,
    ToolCallRecord,
)
from koda_ray.state.store import Store
from koda_ray.state.versions import VersionRecord
from koda_ray.types import NodeState, Note, Output, Pointed, Preview, Unread, new_id, now

__all__ = ["back_at", "fork_session", "forked"]

S = TypeVar("S", Preview, Output)
N = TypeVar("N", Pointed, Unread)
_BACK = "A person put the session back to an earlier point."
_FILES_UNDONE = "What it did to the project's files is undone; what it did elsewhere is not."
_OTHER = "This session was made of another one, at this point."


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """Everything of a session but its state; ``closing`` are messages to be added."""

    tool_calls: Iterable[ToolCallRecord]
    approvals: list[ApprovalRecord]
    beads: list[BeadRecord]
    closing: list[MessageRecord]


def back_at(past: Past, *, command: CommandRecord, at: datetime) -> tuple[Change, tuple[Effect, ...]]:
    """Say what a session becomes at a point of its past.

    Args:
        past: The point.
        command: Who asked; its result is filled in.
        at: The present time.

    Returns:
        The change, and the effects of going back; events among them are in the change already.
    """
    state, effects = phases.apply(past.record.state, PutBack(_then(past)), at)
    parts = _parts(past, state, _BACK, at)
    head_id = new_id("hed")
    events = [rewound(past, head_id, cause_id=command.id), *approval_events(past.pending, parts.approvals)]
    events += [NewEvent(type=effect.type, data=dict(effect.data)) for effect in effects if isinstance(effect, Emit)]
    result: dict[str, JsonValue] = {"phase": state.phase, "owes": state.owes, "headId": head_id, "point": past.point}
    change = Change(
        head_id=head_id,
        state=state,
        tool_calls=list(parts.tool_calls),
        approvals=parts.approvals,
        beads=parts.beads,
        batch=Batch(messages=parts.closing, events=events, command=replace(command, result=result), touch=True),
    )
    return change, effects


def _then(past: Past) -> NodeState:
    """Return the state of a point.

    What nobody had heeded by then was said after it, but for a head: that is where the session was, with all of it.
    """
    if past.head is not None or past.point is None:
        return past.state
    return past.state.model_copy(update={"unread": ()})


async def fork_session(
    store: Store, session_id: str, *, user_id: str, point: str | None, key: str, quota: SessionQuota | None = None
) -> str:
    """Make a session of another one's past; no file is copied, and nothing begins to work.

    Of what its person allowed the other one, it may use what is left; what settings allow begins anew.

    Args:
        store: The database.
        session_id: The other one.
        user_id: Whose both are.
        point: Of which moment; as it is now when None.
        key: The same one for the same point of the same session gives the same fork.
        quota: What the user may have with it.

    Returns:
        Its id.

    Raises:
        NotFound: There is no such session of this user, or it has no such point.
        Conflict: The key was used for something else.
        LimitReached: With it, the user would have more than ``quota``.
    """
    accounts = await store.accounts(user_id, [session_id])
    spent = Amounts.of(accounts[0].spent) if accounts else Amounts()
    made, _ = await store.fork(
        session_id,
        user_id=user_id,
        point=point,
        key=key,
        body={"fork": session_id, "at": point},
        plan=lambda past: replace(forked(past, spent, at=now()), quota=quota),
    )
    return made.id


def forked(past: Past, spent: Amounts, *, at: datetime) -> ForkedSession:
    """Say what a session made of another one's past is.

    Args:
        past: The other one's, up to the point.
        spent: What the other one has used by now, of what its person allowed.
        at: The present time.
    """
    source = past.record
    session_id = new_id("ses")
    moved = _Moved(past, session_id)
    state, _ = phases.apply(source.state, PutBack(_then(past)), at)
    budget = left_of(state.budget, spent) if state.budget is not None else None
    state = moved.state(state).model_copy(update={"created_at": at, "updated_at": at, "budget": budget, "group": None})
    parts = _parts(past, state, _OTHER, at)
    rev, seq = past.rev + 1, len(past.said_seqs)

    def heard(at_seq: int) -> int:
        """Return the number in the fork's log of what was the newest there."""
        return bisect_right(past.said_seqs, at_seq)

    approvals = [replace(each, session_id=session_id) for each in parts.approvals]
    told: dict[str, JsonValue] = {"sessionId": source.id, "point": past.point, "seq": past.seq}
    dumped = cast("JsonValue", state.model_dump(mode="json", by_alias=True))
    events = [
        NewEvent(type="forked", data=told),
        *(announced(each) for each in approvals if each.status == "pending"),
        NewEvent(type="state_change", data={"phase": state.phase, "owes": state.owes, "state": dumped}),
    ]
    return ForkedSession(
        state=state,
        rev=rev,
        messages=chain(
            (replace(each, session_id=session_id, seq=heard(each.seq)) for each in past.messages),
            (replace(each, session_id=session_id, rev=rev, seq=seq) for each in parts.closing),
        ),
        tool_calls=(replace(each, session_id=session_id) for each in parts.tool_calls),
        approvals=approvals,
        beads=parts.beads,
        checkpoints=[
            replace(each, session_id=session_id, event_seq=heard(each.event_seq), seq=heard(each.seq))
            for each in past.checkpoints
        ],
        states=((since, moved.state(each)) for since, each in past.states if since < rev),
        assets=[
            replace(each, id=moved.assets[each.id], session_id=session_id)
            for each in past.assets
            if each.id in moved.assets
        ],
        jobs=moved.jobs(at),
        versions=moved.versions(heard),
        events=events,
        said=(NewEvent(type="message", data=event.data, cause_id=event.cause_id) for event in past.said),
        said_count=seq,
    )


class _Moved:
    """What a session's own ids are in a session that is made of it."""

    def __init__(self, past: Past, session_id: str) -> None:
        self._past = past
        self._session_id = session_id
        jobs, pictures = set[str](), set[str]()
        for state in chain((past.state,), (state for _, state in past.states)):
            jobs.update(_jobs_of(state))
            pictures |= pictures_named(_notes_of(state))
        # of the pictures of notes, those of notes that this session has as well
        self.assets = {each.id: new_id("ast") for each in past.assets if each.purpose == "file" or each.id in pictures}
        self._jobs = {job_id: new_id("job") for job_id in sorted(jobs)}

    def state(self, state: NodeState) -> NodeState:
        """Move a state: its addresses, jobs and files are the new session's, and it has no sandbox."""
        source = self._past.record.id
        return state.model_copy(
            update={
                "session_id": self._session_id,
                "node_id": f"nod_{self._session_id.removeprefix('ses_')}",
                "forked_from": source,
                "asset_ids": tuple(self.assets.get(each, each) for each in state.asset_ids),
                "pointed": tuple(self._noted(each) for each in state.pointed),
                "unread": tuple(self._noted(each) for each in state.unread),
                "preview": self._shown(state.preview),
                "output": self._shown(state.output),
                "finished": self._shown(state.finished),
                "sandbox_id": None,
                "sandbox_status": None,
            }
        )

    def jobs(self, at: datetime) -> list[JobRecord]:
        """Copy the rows of finished renders that a state names; what they made is shared, and counted once."""
        own = {"session_id": self._session_id, "epoch": 0, "lease_until": None, "stored_bytes": 0, "updated_at": at}
        return [
            replace(job, id=self._jobs[job.id], **own)
            for job in self._past.jobs
            if job.id in self._jobs and job.status == "succeeded"
        ]

    def versions(self, heard: Callable[[int], int]) -> list[VersionRecord]:
        """Move versions; a final video that was made since is none of them."""
        return [
            replace(
                each,
                session_id=self._session_id,
                job_id=self._jobs[each.job_id],
                final_job_id=self._jobs.get(each.final_job_id or ""),
                seq=heard(each.seq),
                live=True,
            )
            for each in self._past.versions
            if each.job_id in self._jobs
        ]

    def _noted(self, said: N) -> N:
        """Move the pictures that notes name."""
        pictures = ((note, self.assets.get(note.picture or "", note.picture)) for note in said.notes)
        return said.model_copy(
            update={"notes": tuple(note.model_copy(update={"picture": each}) for note, each in pictures)}
        )

    def _shown(self, shown: S | None) -> S | None:
        if shown is None:
            return None
        update: dict[str, object] = {"job_id": self._jobs[shown.job_id]}
        for name in ("video_url", "thumbnail_url", "stream_url"):
            if isinstance(url := getattr(shown, name, None), str):
                moved = url.replace(self._past.record.id, self._session_id)
                update[name] = moved.replace(shown.job_id, self._jobs[shown.job_id])
        return shown.model_copy(update=update)


def _notes_of(state: NodeState) -> Iterator[Note]:
    for said in (*state.pointed, *state.unread):
        yield from said.notes


def _jobs_of(state: NodeState) -> list[str]:
    return [shown.job_id for shown in (state.preview, state.output, state.finished) if shown is not None]


def _parts(past: Past, state: NodeState, reason: str, at: datetime) -> _Parts:
    """Say what calls, approvals and beads are at a point, in ``state``, which is the past's at rest."""
    asks = _asked(state)
    rested = phases.at_rest(past.state)
    waiting = _asking_call(past, asks) if rested else None
    waits = {waiting} if waiting is not None else set[str]()
    if rested:  # else what was under way is closed, with what it waited for
        waits |= {row.id for row in past.tool_calls if row.status == "waiting"}
    settled = settled_at(past.messages, past.tool_calls, waits=waits, reason=reason, effects=_FILES_UNDONE, at=at)
    approvals: list[ApprovalRecord] = []
    for each in past.approvals:
        wanted = each.kind == asks or (each.kind == "tool_call" and each.call_id in waits)
        is_over = each.status == "pending" and not wanted
        approvals.append(replace(each, status="superseded", resolved_at=at) if is_over else each)
    if asks is not None and not any(each.kind == asks and each.status == "pending" for each in approvals):
        approvals.append(
            ApprovalRecord(
                id=new_id("apr"),
                session_id=past.record.id,
                user_id=past.record.user_id,
                kind=asks,
                payload=payload_of(asks, state),
                status="pending",
                call_id=waiting,
                created_at=at,
            )
        )
    return _Parts(
        tool_calls=settled.tool_calls,
        approvals=approvals,
        beads=[*_beads(past, state), *subagents_at(past, state.session_id, reason=reason, at=at)],
        closing=settled.closing,
    )


def _asked(state: NodeState) -> Literal["question", "plan", "preview"] | None:
    if state.owes is None and state.phase in ("question", "plan", "preview"):
        return state.phase
    return None


def _asking_call(past: Past, asks: str | None) -> str | None:
    """Find the call that put the question or the plan to the person, where it has no answer at the point."""
    asked = [each.call_id for each in past.approvals if each.kind == asks and each.call_id is not None]
    if not asked:
        return None  # nothing of what was said has to be read for that
    open_ = {call.block["id"] for call in open_at(past.messages)}
    return next((each for each in reversed(asked) if each in open_), None)


def _beads(past: Past, state: NodeState) -> list[BeadRecord]:
    """Return the beads of a state's todos, those of earlier lists, and those that are neither todos nor subagents."""
    todos = state.execution.todos if state.execution else ()
    known = {str(each.data.get("todoId")): each for each in past.beads if "todoId" in each.data}
    found = [each for each in past.beads if "todoId" not in each.data and not subagents_among([each])]
    for place, todo in enumerate(todos):
        bead = bead_of(todo, place, session_id=state.session_id, user_id=state.user_id)
        before = known.pop(todo.id, None)
        if before is not None:
            closed_at = (before.closed_at or bead.closed_at) if todo.status == "done" else None
            bead = replace(bead, created_at=before.created_at, closed_at=closed_at)
        found.append(bead)
    found += [
        replace(each, id=f"{state.session_id}:{todo_id}")
        for todo_id, each in known.items()
        if past.until is None or (each.closed_at is not None and each.closed_at < past.until)
    ]
    return [replace(each, session_id=state.session_id) for each in found]
