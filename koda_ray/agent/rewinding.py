"""What an agent's history becomes where somebody goes back into the middle of it: whole, and nothing done twice.

At the point calls may be without results. One that waited for a person waits again; each other gets a result that says
what is known, so that the history is valid and the model, not a restart, decides whether to call again. What ended
after the point keeps its row in the ledger: it did happen. A call that still waits in a fork is another call than the
one it was copied from: both may run, so each has an id, which is its idempotency key, of its own.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import cast

from pydantic import JsonValue

from koda_ray.agent.approvals import announced
from koda_ray.agent.delegation import subagents_among
from koda_ray.agent.ledger import OpenCall, abandoned, recorded_result, result_block
from koda_ray.agent.memory import stream_of
from koda_ray.agent.messages import OpenCalls
from koda_ray.events import Envelope, NewEvent
from koda_ray.llm.base import Block
from koda_ray.state.past import Change, ForkedSession, Past
from koda_ray.state.records import ApprovalRecord, Batch, BeadRecord, MessageRecord, ToolCallRecord
from koda_ray.types import Budget, new_id

__all__ = ["Settled", "agent_back", "agent_fork", "approval_events", "open_at", "rewound", "settled_at", "subagents_at"]

_BACK = "The conversation was put back to an earlier point."
_NOTHING_UNDONE = "What it did is not undone."
_OTHER = "This conversation was made of another one, at this point."


@dataclass(frozen=True, kw_only=True)
class Settled:
    """All calls of a history, and the messages that close those which nobody waits for.

    ``tool_calls`` may be gone through several times, as those may of which they are made.
    """

    tool_calls: Iterable[ToolCallRecord]
    closing: list[MessageRecord]


@dataclass(frozen=True)
class _AllCalls:
    """Calls as they were, but for some; those that were none yet come last."""

    before: Iterable[ToolCallRecord]
    settled: Mapping[str, ToolCallRecord]

    def __iter__(self) -> Iterator[ToolCallRecord]:
        left = dict(self.settled)
        for row in self.before:
            yield left.pop(row.id, row)
        yield from left.values()


def open_at(messages: Iterable[MessageRecord]) -> list[OpenCall]:
    """List the calls without a result, agent by agent, in the order they were made."""
    return [call for agent in _ends(messages) for call in agent.open.calls]


def settled_at(
    messages: Iterable[MessageRecord],
    tool_calls: Iterable[ToolCallRecord],
    *,
    waits: Container[str],
    reason: str,
    effects: str,
    at: datetime,
) -> Settled:
    """Have every call answered, or waiting for a person.

    Args:
        messages: What was said by the point, of all agents, of each in order.
        tool_calls: The calls made by then, as they are now.
        waits: Ids of calls that are to wait for a person, again where they were answered since.
        reason: Why the others are closed, for the model: one sentence.
        effects: What has become of what they did, for the model: one sentence.
        at: The present time.
    """
    ends = list(_ends(messages))
    open_ids = {call.block["id"] for agent in ends for call in agent.open.calls}
    rows = {row.id: row for row in tool_calls if row.id in open_ids}
    closing: list[MessageRecord] = []
    for agent in ends:
        blocks: list[Block] = []
        for call in agent.open.calls:
            call_id = call.block["id"]
            row = rows.get(call_id)
            if row is not None and call_id in waits:
                rows[call_id] = replace(row, status="waiting", ended_at=None)
                continue
            if row is not None and recorded_result(row) is not None:
                blocks.append(result_block(call_id, _ended(row, reason, effects), is_error=True))
                continue
            closed = abandoned(call, row, reason, at=at)
            rows[call_id] = closed
            content, is_error = recorded_result(closed) or (reason, True)
            blocks.append(result_block(call_id, content, is_error=is_error))
        if blocks:
            closing.append(
                replace(
                    agent.last,
                    id=new_id("msg"),
                    position=agent.last.position + 1,
                    role="user",
                    content=cast("list[JsonValue]", blocks),
                    created_at=at,
                )
            )
    return Settled(tool_calls=_AllCalls(tool_calls, rows), closing=closing)


def agent_back(past: Past, *, at: datetime) -> Change:
    """Say what an agent that stands alone becomes at a point of its past."""
    settled, approvals = _at_rest(past, _BACK, at)
    head_id = new_id("hed")
    return Change(
        head_id=head_id,
        state=past.state.model_copy(update={"budget": past.record.state.budget}),  # what was spent stays spent
        tool_calls=list(settled.tool_calls),
        approvals=approvals,
        beads=[
            *(each for each in past.beads if not subagents_among([each])),
            *subagents_at(past, past.record.id, reason=_BACK, at=at),
        ],
        batch=Batch(
            messages=settled.closing,
            events=[rewound(past, head_id), *approval_events(past.pending, approvals)],
            touch=True,
        ),
    )


def agent_fork(past: Past, *, name: str, node: str, budget: Budget, at: datetime) -> ForkedSession:
    """Say what an agent called ``name``, of a node of its own, is that is made of another one's past.

    ``budget`` is what it may use.
    """
    settled, approvals = _at_rest(past, _OTHER, at)
    ids = {row.id: new_id("cal") for row in settled.tool_calls if row.status == "waiting"}
    session_id, rev, seq = new_id("ses"), past.rev + 1, len(past.said_seqs)
    own = {"session_id": session_id, "node_id": node, "forked_from": past.record.id}
    state = past.state.model_copy(update={**own, "budget": budget, "created_at": at, "updated_at": at})
    told: dict[str, JsonValue] = {"sessionId": past.record.id, "point": past.point, "seq": past.seq}
    approvals = [
        replace(each, session_id=session_id, call_id=ids.get(each.call_id or "", each.call_id)) for each in approvals
    ]
    old = _own_name(past)
    names = {old: name, stream_of(old): stream_of(name)}  # what subagents say keeps its place
    mine = chain(past.messages, (replace(each, rev=rev, seq=past.seq) for each in settled.closing))
    return ForkedSession(
        state=state,
        rev=rev,
        messages=(
            replace(
                each,
                session_id=session_id,
                agent=names.get(each.agent, each.agent),
                content=[_renamed(block, ids) for block in each.content],
                seq=bisect_right(past.said_seqs, each.seq),
            )
            for each in mine
        ),
        tool_calls=(replace(each, session_id=session_id, id=ids.get(each.id, each.id)) for each in settled.tool_calls),
        approvals=approvals,
        beads=[
            *(replace(each, session_id=session_id) for each in past.beads if not subagents_among([each])),
            *subagents_at(past, session_id, reason=_OTHER, at=at, names=names),
        ],
        checkpoints=[replace(each, session_id=session_id, event_seq=seq, seq=seq) for each in past.checkpoints],
        states=((since, each.model_copy(update=own)) for since, each in past.states if since < rev),
        assets=[],
        jobs=[],
        said=(_retold(event, names, ids) for event in past.said),
        said_count=seq,
        events=[NewEvent(type="forked", data=told), *approval_events([], approvals)],
    )


def subagents_at(
    past: Past, session_id: str, *, reason: str, at: datetime, names: Mapping[str, str] | None = None
) -> list[BeadRecord]:
    """Return the beads, as a session's, of the subagents that were there by then; what had not ended never does.

    Args:
        past: The point.
        session_id: Whose beads they become.
        reason: What is said of those that had not ended: one sentence.
        at: The present time.
        names: What agents are called from now on.
    """
    subagents = subagents_among(past.beads)
    if not subagents:
        return []  # nothing of what was said has to be read for that
    spoke_at: dict[str, datetime] = {}
    for message in past.messages:
        spoke_at[message.agent] = max(message.created_at, spoke_at.get(message.agent, message.created_at))
    found: list[BeadRecord] = []
    for each in subagents.values():
        if each.id not in spoke_at:
            continue
        update: dict[str, object] = {"parent": (names or {}).get(each.parent, each.parent)}
        ended_at = each.ended_at
        if ended_at is not None and (past.until is None or ended_at < past.until):  # had its parent heard?
            heard_at = spoke_at.get(each.parent)
            update["told"] = each.told and heard_at is not None and heard_at >= ended_at
        else:
            update |= {"status": "cancelled", "result": reason, "code": None, "told": True, "ended_at": at}
        found.append(each.model_copy(update=update).bead(session_id, past.record.user_id))
    return found


def rewound(past: Past, head_id: str, *, cause_id: str | None = None) -> NewEvent:
    """Tell that a session was put back: to where, what it left, and which stretches of its events count now."""
    history: list[JsonValue] = [[span.seq, span.seq_stop] for span in past.spans]
    data: dict[str, JsonValue] = {"point": past.point, "headId": head_id, "history": history}
    return NewEvent(type="rewound", data=data, cause_id=cause_id)


def approval_events(before: Sequence[ApprovalRecord], after: Sequence[ApprovalRecord]) -> list[NewEvent]:
    """Tell what waits for a person no longer, and what does from now on."""
    was, waits = ({each.id: each for each in some if each.status == "pending"} for some in (before, after))
    over = [replace(each, status="superseded") for each in was.values() if each.id not in waits]
    return [announced(each) for each in [*over, *(each for each in waits.values() if each.id not in was)]]


def _at_rest(past: Past, reason: str, at: datetime) -> tuple[Settled, list[ApprovalRecord]]:
    # its own: a subagent that has not ended never does, and nobody is left to hear what is answered it
    own = {message.id for message in past.messages if message.agent == _own_name(past)}
    waits = {row.id for row in past.tool_calls if row.status == "waiting" and row.message_id in own}
    settled = settled_at(past.messages, past.tool_calls, waits=waits, reason=reason, effects=_NOTHING_UNDONE, at=at)
    approvals = [
        replace(each, status="superseded", resolved_at=at)
        if each.status == "pending" and each.call_id not in waits
        else each
        for each in past.approvals
    ]
    return settled, approvals


def _own_name(past: Past) -> str:
    return past.record.state.node_id.removeprefix("agent:")


def _renamed(block: JsonValue, ids: Mapping[str, str]) -> JsonValue:
    """Give a call the id that it has from now on."""
    if not isinstance(block, dict) or block["type"] != "tool_use":
        return block
    return {**block, "id": ids.get(str(block["id"]), block["id"])}


def _retold(event: Envelope, names: Mapping[str, str], ids: Mapping[str, str]) -> NewEvent:
    """Tell again what was said, by the names that agents and calls have from now on."""
    data: dict[str, JsonValue] = dict(event.data)
    if "agent" in data:
        data["agent"] = names.get(str(data["agent"]), data["agent"])
    if isinstance(calls := data.get("calls"), list):
        data["calls"] = [ids.get(str(each), each) for each in calls]
    return NewEvent(type="message", data=data, cause_id=event.cause_id)


@dataclass
class _End:
    """How an agent's history ends: its last message, and the calls without a result."""

    last: MessageRecord
    open: OpenCalls


def _ends(messages: Iterable[MessageRecord]) -> list[_End]:
    """Go through what agents said once, holding none of it that has gone by and been answered."""
    agents: dict[str, _End] = {}
    for message in messages:
        end = agents.setdefault(message.agent, _End(message, OpenCalls()))
        end.last = message
        end.open.add(message)
    return list(agents.values())


def _ended(row: ToolCallRecord, reason: str, effects: str) -> str:
    message = (
        f"{reason} This call of {row.name} had been made then and ended afterwards ({row.status}). {effects} Look at "
        "what is there before calling it again."
    )
    error: dict[str, JsonValue] = {"code": "REWOUND", "message": message, "retryable": True}
    return json.dumps({"error": error}, ensure_ascii=False)
