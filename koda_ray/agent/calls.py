"""The calls of one answer, run or closed: START first, then the tool, then its outcome with its result.

The order of commits is the whole point. A call whose START is not stored has not run; one whose outcome is stored has
its result in the history, because both are one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pydantic import JsonValue

from koda_ray.agent.breakpoints import Breakpoint
from koda_ray.agent.ledger import (
    abandoned,
    next_step,
    recorded_result,
    refused,
    result_block,
    sealed,
    settled,
    started,
    waiting,
)
from koda_ray.agent.limits import Limits, LoopOutcome
from koda_ray.agent.messages import OpenCall
from koda_ray.agent.runner import run_tool
from koda_ray.agent.toolkit import BoundCall, ToolCall, Toolkit, ToolOutcome
from koda_ray.agent.transcript import Transcript, merged
from koda_ray.events import NewEvent
from koda_ray.llm.base import Block
from koda_ray.state.store import Batch, ToolCallRecord
from koda_ray.types import now

__all__ = ["Calls"]


class Calls:
    """Answers the open calls of an agent.

    Args:
        log: Its history and ledger.
        toolkit: What it can do.
        limits: Bounds of one run.
        agent: Who calls.
        session_id: For whom.
        user_id: For whom.
        move: Told each breakpoint that is reached.
    """

    def __init__(
        self,
        log: Transcript,
        toolkit: Toolkit,
        limits: Limits,
        *,
        agent: str,
        session_id: str,
        user_id: str,
        move: Callable[[Breakpoint], None],
    ) -> None:
        self._log = log
        self._toolkit = toolkit
        self._limits = limits
        self._agent = agent
        self._session_id = session_id
        self._user_id = user_id
        self._move = move
        self.made = 0
        """Calls run or refused in this run."""

    async def answer(self, open_: Sequence[OpenCall]) -> LoopOutcome | None:
        """Answer the first open call, or the pure ones that lead, and say why the run must end, if it must."""
        first = open_[0]
        record = self._log.calls.get(first.block["id"])
        effect = self._toolkit.effect(first.block["name"])
        step = next_step(record, effect, max_attempts=self._limits.call_attempts)
        if record is not None and step == "wait":
            self._move(Breakpoint.AWAITING_APPROVAL)
            return LoopOutcome(kind="suspended", suspended_call_id=record.id)
        if record is not None and step != "run":
            await self._close_call(record, seal=step == "seal")
            return None
        if self.made >= self._limits.tool_calls:
            self._move(Breakpoint.READY)
            return LoopOutcome(kind="limit", text=f"Stopped at the limit of one run: {self.made} tool calls.")
        bound = self._toolkit.bind(first.block["name"], first.block["input"])
        if isinstance(bound, ToolOutcome):
            self.made += 1
            await self.settle(refused(first.message, first.block, bound, at=now()), bound)
            self._move(Breakpoint.POST_TOOL)
            return None
        return await self._execute([(first, bound), *self._pure_after(open_, bound)])

    def _pure_after(self, open_: Sequence[OpenCall], first: BoundCall) -> list[tuple[OpenCall, BoundCall]]:
        """Pick the calls that may run beside the first: pure ones of the same message, without a gap."""
        beside: list[tuple[OpenCall, BoundCall]] = []
        room = min(self._limits.parallel_pure, self._limits.tool_calls - self.made)
        if first.tool.effect != "pure" or first.tool.asks:
            return beside
        for call in open_[1:room]:
            bound = self._toolkit.bind(call.block["name"], call.block["input"])
            record = self._log.calls.get(call.block["id"])
            if call.message.id != open_[0].message.id or isinstance(bound, ToolOutcome):
                break
            if bound.tool.effect != "pure" or bound.tool.asks:
                break
            if next_step(record, "pure", max_attempts=self._limits.call_attempts) != "run":
                break
            beside.append((call, bound))
        return beside

    async def _execute(self, calls: Sequence[tuple[OpenCall, BoundCall]]) -> LoopOutcome | None:
        self._move(Breakpoint.PRE_TOOL)
        self.made += len(calls)
        rows = [self._start(call, bound) for call, bound in calls]
        starts = [NewEvent(type="tool_start", data=_about(row, self._agent), cause_id=row.id) for row in rows]
        await self._log.commit(Batch(tool_calls=rows, events=starts))
        self._move(Breakpoint.TOOL_EXECUTING)
        tasks = [
            asyncio.ensure_future(run_tool(bound, self._call(row))) for (_, bound), row in zip(calls, rows, strict=True)
        ]
        try:
            # run beside each other, recorded one after the other: what a later call says must not overtake
            for row, task in zip(rows, tasks, strict=True):
                outcome = await task
                if outcome.suspend:
                    await self._suspend(row, outcome)
                    return LoopOutcome(kind="suspended", suspended_call_id=row.id)
                await self.settle(settled(row, outcome, at=now()), outcome)
        finally:
            await _end(tasks)
        self._move(Breakpoint.POST_TOOL)
        return None

    async def _suspend(self, row: ToolCallRecord, outcome: ToolOutcome) -> None:
        await self._log.commit(merged(Batch(tool_calls=[waiting(row, outcome)]), outcome.batch))
        self._move(Breakpoint.AWAITING_APPROVAL)

    async def abandon(self, open_: Sequence[OpenCall], reason: str, batch: Batch | None) -> None:
        """Close all open calls, and commit ``batch`` with that."""
        rows = [
            abandoned(call.message, call.block, self._log.calls.get(call.block["id"]), reason, at=now())
            for call in open_
        ]
        own = Batch(tool_calls=[row for row in rows if row != self._log.calls.get(row.id)])
        blocks: list[Block] = []
        for row in rows:
            content, is_error = recorded_result(row) or (reason, True)
            blocks.append(result_block(row.id, content, is_error=is_error))
            data = {**_about(row, self._agent), "status": row.status, "isError": is_error}
            own.events.append(NewEvent(type="tool_end", data=data, cause_id=row.id))
        if blocks:
            own.messages.append(self._log.record("user", blocks))
        await self._log.commit(merged(own, batch))

    async def settle(self, row: ToolCallRecord, outcome: ToolOutcome) -> None:
        """Store an outcome, its result and its changes in one transaction."""
        block = result_block(row.id, outcome.content, is_error=outcome.is_error)
        data = {**_about(row, self._agent), "status": row.status, "isError": outcome.is_error}
        if row.ended_at is not None:
            data["durationMs"] = round((row.ended_at - row.started_at).total_seconds() * 1000)
        own = Batch(tool_calls=[row], messages=[self._log.record("user", [block])])
        batch = merged(own, outcome.batch)
        batch.events = [*batch.events, NewEvent(type="tool_end", data=data, cause_id=row.id)]
        await self._log.commit(batch)

    async def _close_call(self, record: ToolCallRecord, *, seal: bool) -> None:
        row = sealed(record, at=now()) if seal else record
        content, is_error = recorded_result(row) or ("", True)
        await self.settle(row, ToolOutcome(content=content, is_error=is_error))
        self._move(Breakpoint.POST_TOOL)

    def _start(self, call: OpenCall, bound: BoundCall) -> ToolCallRecord:
        before = self._log.calls.get(call.block["id"])
        attempt = 1 if before is None else before.attempt + 1
        tool = bound.tool
        return started(call.message, call.block, name=tool.name, effect=tool.effect, attempt=attempt, at=now())

    def _call(self, row: ToolCallRecord) -> ToolCall:
        return ToolCall(
            id=row.id,
            attempt=row.attempt,
            agent=self._agent,
            name=row.name,
            session_id=self._session_id,
            user_id=self._user_id,
        )


def _about(row: ToolCallRecord, agent: str) -> dict[str, JsonValue]:
    return {"callId": row.id, "name": row.name, "agent": agent, "attempt": row.attempt, "effect": row.effect}


async def _end(tasks: Sequence[asyncio.Task[ToolOutcome]]) -> None:
    """Cancel what still runs and wait for it, so that no tool outlives its call."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()
